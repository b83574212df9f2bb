"""Demands of spec.md files as criteria: whole, named, and what is removed said to be removed."""

from rulebook_ralph.sources import rulebook_spec
from tests.cases import each_of

HEAD = "## ADDED Requirements\n\n### Requirement: Login\n"


@each_of(
    ("text", "criteria"),
    [
        (
            HEAD + "The login SHALL reject\nbad passwords. It MUST wait.\n",
            ("The login SHALL reject bad passwords. It MUST wait.",),
        ),
        (HEAD + "It MUST wait.\n\nWaiting is slow.\n\nIt MUST end.\n", ("Login: It MUST wait.", "Login: It MUST end.")),
        (HEAD + "The login MUST offer:\n\n- a\n- b\n\nMore.\n", ("The login MUST offer: a; b",)),
        (
            HEAD + "The login MUST offer:\n| a | b |\n|---|---|\n| 1 | 2 |\n",
            ("The login MUST offer:\n| a | b |\n|---|---|\n| 1 | 2 |",),
        ),
        (
            HEAD + "The login MUST read:\n```\n# MUST not be read\nx: 1\n```\n",
            ("The login MUST read:\n```\n# MUST not be read\nx: 1\n```",),
        ),
        (HEAD + "- SHALL a\n  more\n- b\n- MUST c\n", ("Login: SHALL a more", "Login: MUST c")),
        (HEAD + "- SHALL a\n\n  and b\n\nnot c\n", ("Login: SHALL a and b",)),
        (HEAD + "The login must, SHOULD and `MUST` do nothing.\n", ()),
        ("# Spec\n\n## Gate\n\n- SHALL a\n", ("Gate: SHALL a",)),
        ("The system SHALL a.", ("The system SHALL a.",)),
        (HEAD + "```\n### Requirement: No\n```\nThe login MUST a.\n", ("The login MUST a.",)),
        (
            HEAD
            + "#### Scenario: Bad\n- **GIVEN** a user\n- **WHEN** it fails\n- **THEN** it MUST\n  c\n- **AND** it MUST d\n",
            (
                "Login — Bad: GIVEN a user, WHEN it fails, THEN it MUST c",
                "Login — Bad: GIVEN a user, WHEN it fails, Then it MUST d",
            ),
        ),
        (HEAD + "#### Scenario: Bad\nGiven a\nWhen b\nThen c\n", ()),
        (
            "## REMOVED Requirements\n### Requirement: Old\n**Reason**: a\n**Migration**: b\n#### Scenario: S\nThen c\n",
            ('Removed requirement "Old": Reason: a; Migration: b',),
        ),
        ("## REMOVED Requirements\n### Requirement: Old\n", ('Removed requirement "Old"',)),
        ("## REMOVED Requirements\n### Requirement: Old\nIt SHALL x.\n", ('Removed requirement "Old": It SHALL x.',)),
        ("## Removed requirements\n- `### Requirement: Old`\n", ("Removed requirement: Old",)),
        (
            "## RENAMED Requirements\n- FROM: `### Requirement: Old`\n- TO: `### Requirement: New`\n",
            ('Renamed requirement "Old" to "New"',),
        ),
        (
            "## MODIFIED Requirements\n### Requirement: A\nIt MUST a.\n## REMOVED Requirements\n### Requirement: B\n",
            ("A: It MUST a.", 'Removed requirement "B"'),
        ),
    ],
)
def test_criteria(text: str, criteria: tuple[str, ...]) -> None:
    assert rulebook_spec.read(text).criteria == criteria


def test_requirements_are_counted_once_however_many_demands_they_make() -> None:
    text = HEAD + "It MUST a.\n\nIt MUST b.\n#### Scenario: S\nThen it MUST c\n## Other\n- MUST d\n- MUST e\n"
    spec = rulebook_spec.read(text)
    assert (len(spec.criteria), spec.requirements) == (5, 3)


def test_a_long_setting_of_a_scenario_is_told_once() -> None:
    given = "\n".join(f"And given {index}" for index in range(200))
    criteria = rulebook_spec.read(f"{HEAD}#### Scenario: S\nGiven x\n{given}\nThen it MUST a\nAnd it MUST b\n").criteria
    assert len(criteria) == 3
    assert "given 199" in criteria[0]
    assert criteria[1:] == ("Login — S: Then it MUST a", "Login — S: Then it MUST b")
