"""Wheel, sdist and editable install, each built and put into a fresh virtual environment: nothing is left behind."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from rulebook_ralph import __version__
from rulebook_ralph.resources import SCHEMAS, schema
from tests.sampling import sample

PROJECT = Path(__file__).parents[2]
SHIPPED = sorted(
    file.relative_to(PROJECT)
    for folder in ("schemas", "templates")
    for file in (PROJECT / folder).rglob("*")
    if file.is_file()
)
LOOK = """
import json, sys
from pathlib import Path
from rulebook_ralph import resources
schemas = {name: resources.schema(name) for name in json.loads(sys.argv[1])}
templates = {name: resources.template_text(name) for name in json.loads(sys.argv[2])}
whole = sorted(str(file.relative_to(resources.template_folder())) for file in resources.template_folder().rglob("*")
               if file.is_file())
print(json.dumps([schemas, templates, whole, str(Path(resources.__file__).parent)]))
"""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel (built from the sdist) and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(PROJECT))
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist, "editable": PROJECT}


def run(*command: str, cwd: Path | None = None) -> str:
    ended = subprocess.run(
        command, cwd=cwd, env=clean_environment(), capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def clean_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    return {**kept, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_DEPS": "1"}


def fresh_environment(folder: Path) -> Path:
    """A virtual environment that sees what this one has installed, but for the project itself; gives its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    python = folder / "bin" / "python"
    site = Path(run(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    seen = folder / "seen"
    seen.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "rulebook_ralph" not in entry.name and entry.suffix != ".pth":
            (seen / entry.name).symlink_to(entry)
    (site / "seen.pth").write_text(f"{seen}\n")
    return python


@pytest.mark.parametrize("kind", sample(["wheel", "sdist", "editable"], 1))
def test_an_install_has_every_schema_and_template(kind: str, built: dict[str, Path], tmp_path: Path) -> None:
    python = fresh_environment(tmp_path / "environment")
    target = ["--editable", str(built[kind])] if kind == "editable" else [str(built[kind])]
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile"]
    run(*pip, "--no-build-isolation", *target)

    schemas = [file.name.removesuffix(".schema.json") for file in SHIPPED if file.parts[0] == "schemas"]
    templates = [file.relative_to("templates").as_posix() for file in SHIPPED if file.parts[0] == "templates"]
    found, texts, whole, where = json.loads(
        run(str(python), "-c", LOOK, json.dumps(schemas), json.dumps(templates), cwd=tmp_path)
    )
    assert found == {name: json.loads((PROJECT / f"schemas/{name}.schema.json").read_bytes()) for name in schemas}
    assert texts == {name: (PROJECT / "templates" / name).read_text(encoding="utf-8") for name in templates}
    assert whole == sorted(templates)
    assert (Path(where) == PROJECT / "rulebook_ralph") is (kind == "editable")

    version = run(str(python.parent / "ralph"), "--version", cwd=tmp_path)
    assert __version__ in version


def test_every_schema_the_code_asks_for_is_there() -> None:
    for name in SCHEMAS:
        assert schema(name)["$schema"] == "https://json-schema.org/draft/2020-12/schema", name


def test_archives_hold_the_package_and_nothing_else(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        tops = {name.split("/")[0] for name in wheel.namelist()}
        assert {f"rulebook_ralph/{file.as_posix()}" for file in SHIPPED} <= set(wheel.namelist())
        assert not [name for name in wheel.namelist() if "__pycache__" in name]
    assert tops == {"rulebook_ralph", f"rulebook_ralph-{__version__}.dist-info"}
    with tarfile.open(built["sdist"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    texts = {"README.md", "LICENSE", "pyproject.toml", "docs/design.md"}
    assert {file.as_posix() for file in SHIPPED} | texts <= names


def test_no_template_is_named_as_a_python_file() -> None:
    """It would break the editable install."""
    assert not [file for file in SHIPPED if file.suffix == ".py"]
