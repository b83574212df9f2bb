"""The sandbox, with real bubblewrap: what an agent in it can reach, as the user and as root, and how it ends."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from rulebook_ralph.process.box import Box, NoBox, boxed_environment, daemon_places, probe_box
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.process.supervisor import Command, Ended, ProcessLimits, run

PATH = os.environ["PATH"]
FOUND = probe_box({"PATH": PATH})
pytestmark = pytest.mark.skipif(isinstance(FOUND, NoBox), reason=getattr(FOUND, "reason", ""))
BWRAP = FOUND if isinstance(FOUND, Path) else Path("bwrap")
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
is_root = os.geteuid() == 0
PRUNED = ("/proc", "/sys", "/usr", "/work", "/opt", "/var/tmp", "/var/lib", "/dev/shm", "/root/.pyenv", "/root/.cache")


@dataclass(frozen=True)
class Place:
    """A repository with all that an agent must not reach, and a clone of it."""

    base: Path
    as_user: bool

    @property
    def repository(self) -> Path:
        return self.base / "project"

    @property
    def cache(self) -> Path:
        return self.base / "home/cache"

    @property
    def clone(self) -> Path:
        return self.cache / "key/agent-1"

    @property
    def other_tree(self) -> Path:
        return self.base / "project-other"

    @property
    def box(self) -> Box:
        links = (self.repository / "node_modules", self.repository / "node_modules")
        objects = (self.repository / ".git/objects", self.cache / "objects")
        return Box(
            BWRAP,
            hidden=(self.cache, self.base / "home/config", self.base / "home/gone", self.other_tree),
            binds=((self.clone, self.repository),),
            read_only=(links, objects),
        )

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": PATH, "HOME": str(self.base / "home"), "GIT_CONFIG_GLOBAL": "/dev/null"}

    def sh(self, script: str, *, code: int | None = 0) -> str:
        """What a script says in the box."""
        argv = self.box.argv(("sh", "-c", script), self.repository, self.environment)
        done = subprocess.run(
            (*(NOBODY if self.as_user and is_root else ()), *argv),
            env=boxed_environment(self.environment),
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def snapshot(self) -> dict[str, bytes]:
        """All that is real outside of the clone."""
        files = (path for path in sorted(self.base.rglob("*")) if not path.is_relative_to(self.clone))
        return {str(path): path.read_bytes() if path.is_file() else b"" for path in files}


def make(base: Path, *, as_user: bool) -> Place:
    place = Place(base, as_user)
    for name, text in {
        "project/app.txt": "real",
        "project/.rulebook-ralph/prd.json": "{}",
        "project/node_modules/left-pad/index.js": "pad",
        "project/.git/objects/pack/one.pack": "objects",
        "project/.git/ralph/lock": "",
        "project-other/prd.json": "{}",
        "home/.login": "key",
        "home/config/prd.json": "{}",
        "home/cache/trust/prd.json": "{}",
        "home/cache/key/gate-1/app.txt": "base",
        "home/cache/key/agent-1/app.txt": "clone",
    }.items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if is_root and as_user:
        for path in (base, *base.rglob("*")):
            os.chown(path, 65534, 65534)
    return place


@pytest.fixture(params=["user", "root"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Where another user may go, and below /tmp, which is another one in the box."""
    if request.param == "root" and not is_root:
        pytest.skip("needs root")
    base = Path(tempfile.mkdtemp(dir="/tmp", prefix="ralph-box-"))
    base.chmod(0o755)
    yield make(base, as_user=request.param == "user")
    shutil.rmtree(base)


def test_an_agent_that_searches_the_whole_disk_finds_no_task_list(place: Place) -> None:
    prune = " -o ".join(f"-path {path}" for path in PRUNED)
    script = (
        rf"find / \( {prune} \) -prune -o -path '{place.base}/*' -name prd.json -print 2>/dev/null; "
        f"ls /proc/1/root{place.base}/*/prd.json /proc/*/cwd/../home/config/prd.json 2>/dev/null; "
        f"cd {place.base}; for folder in project home/cache home/config project-other; do ls -mA $folder; done"
    )
    said = place.sh(script, code=None)
    assert said.splitlines() == ["app.txt, node_modules", "objects"], said
    assert place.sh("cat app.txt $HOME/.login node_modules/left-pad/index.js; pwd") == (
        f"clonekeypad{place.repository}\n"
    )


def test_whatever_it_does_nothing_real_changes_but_the_clone(place: Place) -> None:
    before = place.snapshot()
    real = (place.repository, place.cache, place.other_tree, place.base / "home/config")
    script = "\n".join(
        [
            *(f"echo evil > {path}/evil; rm -rf {path}/*; rm -rf {path}; mv {path} /tmp/away" for path in real),
            f"mkdir -p {place.repository}/.git {place.cache}/trust && echo evil > {place.repository}/.git/config",
            "echo evil > node_modules/left-pad/index.js; rm -rf node_modules",
            "echo made > app.txt; echo evil > /tmp/evil",
        ]
    )
    place.sh(script, code=None)
    made = {name: before.get(name) for name in place.snapshot() if name not in before}
    assert place.snapshot() == before, made
    assert (place.clone / "app.txt").read_text() == "made\n"
    assert not Path("/tmp/evil").exists()


@pytest.mark.parametrize(
    "command",
    [
        "umount {place}",
        "umount -l {place}",
        "unshare -Urm umount {place}",
        "unshare -Urm sh -c 'umount -l {place}; cat {place}/secret'",
        "unshare -Urm sh -c 'mkdir /tmp/m && mount --bind / /tmp/m && cat /tmp/m{place}/secret'",
        "nsenter -t 1 -m cat {place}/secret",
        "mount -o remount,bind {place}",
        "chroot /proc/1/root cat {place}/secret",
    ],
)
def test_nothing_uncovers_what_is_hidden(place: Place, command: str) -> None:
    for name in ("project", "home/cache", "home/config", "project-other"):
        (place.base / name / "secret").write_text("SECRET")
    for name in ("project", "home/config"):
        script = f"{command.format(place=place.base / name)}; cat {place.base / name}/secret; echo over"
        said = place.sh(script)
        assert "over" in said
        assert "SECRET" not in said


def test_linked_folders_are_read_only_and_removing_them_empties_nothing(place: Place) -> None:
    said = place.sh("rm -rf node_modules; echo x > node_modules/new; cat node_modules/left-pad/index.js")
    assert said.endswith("pad") or "pad" in said
    assert (place.repository / "node_modules/left-pad/index.js").read_text() == "pad"
    assert not (place.repository / "node_modules/new").exists()


def test_tmp_and_the_runtime_folder_are_its_own_and_neighbours_stay(place: Place, tmp_path: Path) -> None:
    Path("/tmp/ralph-other.txt").write_text("outside")
    try:
        said = place.sh("ls /tmp; echo inside > /tmp/ralph-inside.txt; stat -c %a /tmp; mktemp")
    finally:
        Path("/tmp/ralph-other.txt").unlink()
    assert said.split()[:2] == [place.base.name, "1777"]
    assert said.split()[2].startswith("/tmp/")
    assert not Path("/tmp/ralph-inside.txt").exists()
    runtime = tmp_path / "runtime"
    (runtime / "keys").mkdir(parents=True)
    (runtime / "bus").touch()
    (runtime / "keys/ssh").touch()
    environment = {"XDG_RUNTIME_DIR": str(runtime), "SSH_AUTH_SOCK": str(runtime / "keys/ssh")}
    argv = Box(BWRAP).argv(("find", str(runtime), "-type", "f"), Path("/"), environment)
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(runtime / "keys/ssh")]


def test_programs_and_homes_below_tmp_are_still_there() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, tempfile.TemporaryDirectory(dir="/tmp") as other:
        program = Path(folder) / "bin/tool"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\necho tool\n")
        program.chmod(0o755)
        link = Path(other) / "link"
        link.symlink_to(folder)
        odd = f"/tmp/{'x' * 300}:/tmp/../etc:/tmp:/tmp/gone"
        for argv, path in ((("tool",), f"{folder}/bin:{odd}"), ((str(program),), "/bin"), (("tool",), f"{link}/bin")):
            blocks: list[bytes] = []
            box = Box(BWRAP)
            run(Command(argv, Path("/"), {"PATH": f"{path}:/usr/bin:/bin"}, box=box), on_output=blocks.append)
            assert blocks == [b"tool\n"]


def test_a_repository_that_is_reached_by_a_symlink(place: Place) -> None:
    (place.base / "link").symlink_to(place.repository)
    argv = place.box.argv(("sh", "-c", "cat app.txt; pwd -P"), place.base / "link", place.environment)
    done = subprocess.run(argv, env=place.environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"clone{place.repository}\n"


def test_sockets_of_daemons_are_hidden_as_files_or_folders(tmp_path: Path) -> None:
    (tmp_path / ".local/state/watchman/me-state").mkdir(parents=True)
    (tmp_path / "docker.sock").touch()
    environment = {"HOME": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/docker.sock"}
    script = (
        f"ls {tmp_path}/.local/state/watchman; test -s {tmp_path}/docker.sock; ls {tmp_path}; find /run/docker.sock"
    )
    (tmp_path / "docker.sock").write_text("socket")
    for docker in (False, True):
        box = Box(BWRAP, hidden=daemon_places(environment, docker=docker))
        done = subprocess.run(box.argv(("sh", "-ec", script), Path("/")), capture_output=True, text=True, check=False)
        assert "me-state" not in done.stdout
        assert ("docker.sock" in done.stdout) is docker


def test_no_build_daemon_outside_is_asked() -> None:
    given = {"GRADLE_OPTS": "-Xmx1g", "TMP": "/elsewhere", "WATCHMAN_SOCK": "/s", "KEEP": "1"}
    adjusted = boxed_environment(given)
    assert (adjusted["GRADLE_OPTS"], adjusted["NX_DAEMON"]) == ("-Xmx1g -Dorg.gradle.daemon=false", "false")
    assert (adjusted["TMPDIR"], adjusted["KEEP"], adjusted.keys() & {"TMP", "WATCHMAN_SOCK"}) == ("/tmp", "1", set())


def test_a_machine_without_it_is_told_why(tmp_path: Path) -> None:
    none = probe_box({"PATH": str(tmp_path)})
    assert isinstance(none, NoBox)
    assert "install the package bubblewrap" in none.reason
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    broken = probe_box({"PATH": f"{tmp_path}:/bin"})
    assert isinstance(broken, NoBox)
    assert "No permissions to create a new namespace" in broken.reason
    assert "\n" not in broken.reason


# Its end


def boxed(script: str, tmp_path: Path) -> Ended:
    return run(Command(("python3", "-I", "-S", "-c", script), tmp_path, {"PATH": PATH}, box=Box(BWRAP)))


def soon(condition: Callable[[], object], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def living(mark: str) -> list[int]:
    """The processes of which an argument is that mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if mark in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def test_one_that_ignores_signals_is_killed_with_all_it_started(tmp_path: Path) -> None:
    mark = f"mark-{os.urandom(6).hex()}"
    script = f"""
import os, signal, subprocess, sys, time
for one in (signal.SIGINT, signal.SIGTERM): signal.signal(one, signal.SIG_IGN)
subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 60; :", "{mark}"], env={{}}, start_new_session=True)
print("ready", flush=True)
time.sleep(60)
"""
    cancelled = Cancellation()
    limits = ProcessLimits(interrupt_grace=0.1, terminate_grace=0.1)
    seen: list[list[int]] = []

    def order(_: bytes) -> None:
        seen.append(living(mark))
        cancelled.set()

    command = Command(("python3", "-I", "-S", "-c", script), tmp_path, {"PATH": PATH}, box=Box(BWRAP))
    ended = run(command, limits=limits, cancelled=cancelled, on_output=order)
    assert (ended.exit_code, ended.killed_by) == (-signal.SIGKILL, "interrupted")
    assert seen
    assert living(mark) == []


@pytest.mark.parametrize(("script", "code"), [("import os; os.kill(os.getpid(), 11)", -11), ("raise SystemExit(7)", 7)])
def test_exit_codes_and_deaths_by_signals_are_told_as_outside(script: str, code: int, tmp_path: Path) -> None:
    assert boxed(script, tmp_path).exit_code == code


DAEMONS = """
import os, subprocess, sys, time
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sh", ["sh", "-c", "trap '' TERM INT HUP; sleep 60; :", sys.argv[1]], {"PATH": os.defpath})
        os._exit(0)
print("ready", flush=True)
if sys.argv[2] == "stay":
    time.sleep(60)
"""


def test_daemons_end_with_the_command(tmp_path: Path) -> None:
    mark = f"mark-{os.urandom(6).hex()}"
    argv = ("python3", "-I", "-S", "-c", DAEMONS, mark, "go")
    ended = run(Command(argv, tmp_path, {"PATH": PATH}, box=Box(BWRAP)))
    assert (ended.exit_code, ended.killed_by) == (0, None)
    assert ended.duration_ms < 10_000
    assert living(mark) == []


RALPH = """
import sys, threading
from pathlib import Path
from rulebook_ralph.process.box import Box
from rulebook_ralph.process.supervisor import Command, run
argv = ("python3", "-I", "-S", "-c", sys.argv[1], sys.argv[2], "stay")
command = Command(argv, Path("/"), {"PATH": sys.argv[3]}, box=Box(Path(sys.argv[4])))
thread = threading.Thread(target=run, args=(command,), kwargs={"on_output": lambda _: print("up", flush=True)})
thread.start()
thread.join()
"""


def test_twenty_daemons_are_gone_after_ralph_is_killed() -> None:
    mark = f"mark-{os.urandom(6).hex()}"
    argv = (sys.executable, "-c", RALPH, DAEMONS, mark, PATH, str(BWRAP))
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as ralph:
        assert ralph.stdout is not None
        assert ralph.stdout.readline() == b"up\n"
        assert soon(lambda: len(living(mark)) >= 20)
        ralph.kill()
    assert soon(lambda: not living(mark))


def test_a_sandbox_that_fails_is_told_and_a_liar_is_not_believed(tmp_path: Path) -> None:
    missing = Box(BWRAP, binds=((tmp_path / "gone", tmp_path / "x"),))
    failure = run(Command(("true",), tmp_path, {"PATH": PATH}, box=missing)).failure
    assert failure
    assert failure.message.startswith("the sandbox: Can't find source path")
    liar = "import sys; sys.stderr.write('bwrap: sly\\nand more\\n'); sys.exit(1)"
    assert boxed(liar, tmp_path).exit_code == 1


def test_a_start_takes_milliseconds(tmp_path: Path) -> None:
    times = [run(Command(("true",), tmp_path, {"PATH": PATH}, box=Box(BWRAP))).duration_ms for _ in range(10)]
    assert sorted(times)[2] < 60, times
