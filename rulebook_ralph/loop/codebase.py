"""The facts of the code base, for the brief: looked for once, and again where a manifest or a folder of the root came,
changed or went.
"""

import os
from dataclasses import dataclass, field

from rulebook_ralph.sources.codebase_facts import codebase_facts, is_manifest, manifests
from rulebook_ralph.workspace.git import GitError
from rulebook_ralph.workspace.repository import Repository, within_state

_LARGEST = 1_000_000
"""Bytes of a manifest that is looked into."""

_Outline = frozenset[tuple[str, str]]


@dataclass(slots=True)
class Codebase:
    """Knows the facts of the trees that it was asked for, for one repository."""

    repository: Repository
    _of_trees: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _of_outlines: dict[_Outline, tuple[str, ...]] = field(default_factory=dict)

    def facts(self, tree: str) -> tuple[str, ...]:
        """One line for each fact of a tree or commit, given by its object id; none where git cannot read it."""
        if tree not in self._of_trees:
            try:
                self._of_trees[tree] = self._looked_for(tree)
            except GitError:
                return ()
        return self._of_trees[tree]

    def _looked_for(self, tree: str) -> tuple[str, ...]:
        outline = self._outline(tree)
        if outline not in self._of_outlines:
            listed = self.repository.git.raw("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree)
            paths = [path for path in os.fsdecode(listed).split("\0") if path and not within_state(path)]
            found = {path: self.repository.file_of(tree, path) or b"" for path in manifests(paths)}
            texts = {path: data.decode("utf-8", "replace") for path, data in found.items() if len(data) <= _LARGEST}
            self._of_outlines[outline] = codebase_facts(paths, texts)
        return self._of_outlines[outline]

    def _outline(self, tree: str) -> _Outline:
        """Of the root: its folders, and its manifests with what stands in them."""
        entries = os.fsdecode(self.repository.git.raw("ls-tree", "-z", "--full-tree", tree)).split("\0")
        found = set()
        for entry in filter(None, entries):
            facts, _, name = entry.partition("\t")
            _mode, kind, identity = facts.split(" ")
            if kind == "tree" and not within_state(name):
                found.add((name, ""))
            elif is_manifest(name):
                found.add((name, identity))
        return frozenset(found)
