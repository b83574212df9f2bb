"""How many tests ran, by the output of the runners."""

from time import perf_counter

from rulebook_ralph.checks.integrity import counts
from tests.cases import each_of

OUTPUTS = {
    "pytest": ("collected 9 items\n=== 1 failed, 5 passed, 2 skipped, 1 xfailed, 3 warnings in 0.12s ===\n", 7),
    "pytest -q": (".....\n5 passed in 0.02s\n", 5),
    "pytest slow": ("======= 5 passed in 75.10s (0:01:15) =======\n", 5),
    "pytest colours": (
        "\x1b[32m\x1b[32m\x1b[1m5 passed\x1b[0m, \x1b[33m1 skipped\x1b[0m\x1b[32m in 0.01s\x1b[0m\x1b[0m\n",
        5,
    ),
    "pytest none": ("\nno tests ran in 0.01s\n", 0),
    "pytest deselected": ("2 passed, 9 deselected in 0.01s\n", 2),
    "unittest": ("..s\n-----\nRan 3 tests in 0.001s\n\nOK (skipped=1)\n", 2),
    "unittest red": ("Ran 3 tests in 0.001s\n\nFAILED (failures=1, skipped=1)\n", 2),
    "unittest plain": ("Ran 1 test in 0.001s\n\nOK\n", 1),
    "jest": ("Test Suites: 2 passed, 2 total\nTests:       1 failed, 1 skipped, 4 passed, 6 total\nTime: 1 s\n", 5),
    "vitest": (" Test Files  1 passed (1)\n      Tests  2 failed | 3 passed | 1 skipped (6)\n   Duration  1s\n", 5),
    "mocha": ("\n  12 passing (34ms)\n  2 pending\n  1 failing\n\n  1) x\n", 13),
    "go -v": (
        "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/x (0.00s)\n--- SKIP: TestB (0.00s)\nok  p 0.1s\n",
        2,
    ),
    "go -v red": ("=== RUN   TestA\n--- FAIL: TestA (0.00s)\nFAIL\n", 1),
    "go": ("ok  \tp\t0.1s\n", None),
    "go red": ("--- FAIL: TestA (0.00s)\n    a_test.go:3: no\nFAIL\n", None),
    "cargo": ("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n" * 2, 6),
    "nextest": ("     Summary [   0.1s] 10 tests run: 10 passed, 2 skipped\n", 10),
    "rspec": ("10 examples, 1 failure, 2 pending\n", 8),
    "minitest": ("5 runs, 10 assertions, 0 failures, 0 errors, 1 skips\n", 4),
    "phpunit": ("OK (5 tests, 10 assertions)\n", 5),
    "phpunit red": ("Tests: 5, Assertions: 10, Failures: 1, Skipped: 2.\n", 3),
    "exunit": ("5 tests, 0 failures, 1 skipped\n", 4),
    "node": ("ℹ tests 5\nℹ suites 0\nℹ pass 4\nℹ fail 0\nℹ cancelled 0\nℹ skipped 1\n", 4),  # noqa: RUF001
    "tap": ("TAP version 13\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP no net\n1..3\n", 2),
    "maven": (
        "Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 1 s\n[INFO] Tests run: 7, Failures: 0, Errors: 0, Skipped: 1\n",
        6,
    ),
    "dotnet": ("Passed!  - Failed:     0, Passed:     5, Skipped:     1, Total:     6, Duration: 1 s\n", 5),
    "bun": (" 5 pass\n 1 fail\n", 6),
    "playwright": ("  5 passed (1.2s)\n", 5),
    "nothing": ("all good\n12 files checked\n", None),
    "empty": ("", None),
}


@each_of("name", OUTPUTS)
def test_the_count_of(name: str) -> None:
    output, count = OUTPUTS[name]
    assert counts.tests_run(output) == count
    assert counts.tests_run(output.replace("\n", "\r\n")) == count


FAILING = {
    "pytest": 1,
    "pytest -q": 0,
    "unittest red": 1,
    "jest": 1,
    "vitest": 2,
    "mocha": 1,
    "go -v": 0,
    "go -v red": 1,
    "go red": None,
    "cargo": 0,
    "rspec": 1,
    "phpunit red": 1,
    "node": 0,
    "tap": 1,
    "maven": 0,
    "bun": 1,
    "nothing": None,
}


@each_of("name", FAILING)
def test_the_failures_of(name: str) -> None:
    assert counts.tests_failed(OUTPUTS[name][0]) == FAILING[name]


def test_failures_of_several_kinds_are_one_sum() -> None:
    assert counts.tests_failed("2 failed, 1 passed, 3 errors in 0.1s") == 5
    assert counts.tests_failed("Ran 9 tests in 0.1s\n\nFAILED (failures=2, errors=1, expected failures=4)\n") == 3
    assert counts.tests_failed("test result: FAILED. 3 passed; 2 failed; 0 ignored\n" * 2) == 4


def test_the_last_summary_wins() -> None:
    assert counts.tests_run("100 passed in 0.1s\n...\n3 passed in 0.1s\n") == 3
    assert counts.tests_run("Ran 9 tests in 0.1s\n\nOK (skipped=1)\nRan 2 tests in 0.1s\n\nOK\n") == 2


def test_tests_that_were_only_listed_are_not_counted_in_a_part_of_the_output() -> None:
    listed = "--- PASS: TestA (0.00s)\n"
    assert counts.tests_run(f"{listed}\n… 100 bytes left out …\n{listed}") is None
    assert counts.tests_run("5 passed in 1s\n… 100 bytes left out …\n6 passed in 1s") == 6


NUMBERS = " ".join(str(1000 + n) for n in range(5000))
HOSTILE = (
    NUMBERS,
    NUMBERS[:1990],
    f"{'=' * 900} {NUMBERS[:900]}",
    "1 a, " * 390 + "x",
    "=" * 1990,
    f"1 a{'1' * 1900}",
    f"1 a in {'1.' * 900}",
    f"Tests:{' ' * 1900}x",
    f"Tests: {'1' * 1900}",
    f"Tests: 1 a {'1' * 1900}",
    f"Tests  {NUMBERS[:1900]}",
    f"Tests  {'1 a | ' * 300}",
    f"Tests: 1, Assertions: {'1' * 1900}",
    f"Summary [{']' * 1900}",
    f"Summary []{' ' * 900}{'1' * 900}",
    f"1 tests, 1 failures{', 1' * 600}",
    f"1 tests, 1 failures, {'1' * 1900}",
    "Failed: 1, " * 180,
    f"Failed:{' ' * 1900}x",
    "ok | 1 passed" + " | 1" * 450,
    f"OK ({'(' * 900}",
    f"ok {'1' * 1900}a",
    f"ok 1 {'# ' * 900}",
    f"{'1' * 1900} passing (x",
    f"{'1' * 1900} tests failed",
    f"100% tests passed, {'1' * 1900} tests failed out of 1",
    f"Tests: 1 passed, {'1' * 1900}",
    f"test result: {'a' * 1900}",
    f"{'1' * 1000} examples, {'1' * 900}",
    f"Executed {'1' * 1900} tests, with",
    "\x1b[" * 900 + "\x1b[" + "1;" * 400,
)


@each_of("line", HOSTILE)
def test_no_line_takes_long(line: str) -> None:
    times = []
    for _ in range(3):
        started = perf_counter()
        counts.tests_run(f"{line}\n" * 5)
        counts.tells_of_failures(f"{line}\n" * 5)
        times.append(perf_counter() - started)
    assert min(times) < 0.1


def test_many_summaries_that_go_on_take_no_long_time() -> None:
    started = perf_counter()
    assert counts.tells_of_failures("1 passing\n" * 50_000 + "1 failing\n")
    assert perf_counter() - started < 3


def test_a_line_too_long_to_be_a_summary_is_none() -> None:
    assert counts.tests_run("5 passed, " * 300 + "5 passed in 0.1s") is None
    assert counts.tests_run("5 passed in 0.1s\n" + "x" * 3000) == 5
