"""What common tools print when they fail comes down to the one line that says what failed."""

from __future__ import annotations

import pytest

from engine.telling import find_telling, telling_line

PYTEST = """
============================= test session starts ==============================
collected 2 items
tests/test_tax.py .F                                                     [100%]
=================================== FAILURES ===================================
__________________________________ test_half ___________________________________
    def test_half():
>       assert tax(0.125) == 0.13
E       assert 0.12 == 0.13
tests/test_tax.py:7: AssertionError
=========================== short test summary info ============================
FAILED tests/test_tax.py::test_half - assert 0.12 == 0.13
FAILED tests/test_tax.py::test_more - ValueError: no
========================= 2 failed, 1 passed in 0.02s ==========================
"""
UNITTEST = """
.F
======================================================================
FAIL: test_half_cent (test_tax.TaxTest.test_half_cent)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/tmp/yard-8fk2/wt/T1/test_tax.py", line 8, in test_half_cent
    self.assertEqual(tax(0.125), 0.13)
AssertionError: 0.12 != 0.13

----------------------------------------------------------------------
Ran 2 tests in 0.000s

FAILED (failures=1)
"""
GO = """
=== RUN   TestHalf
--- FAIL: TestHalf (0.00s)
    tax_test.go:9: got 0.12, want 0.13
FAIL
exit status 1
FAIL    example.com/shop   0.002s
"""
CARGO = """
running 1 test
test tests::half ... FAILED

failures:

---- tests::half stdout ----
thread 'tests::half' panicked at src/lib.rs:9:9:
assertion `left == right` failed
  left: 12
 right: 13
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace

test result: FAILED. 0 passed; 1 failed; 0 ignored
error: test failed, to rerun pass `--lib`
"""
RUSTC = """
   Compiling shop v0.1.0 (/tmp/x/shop)
error[E0308]: mismatched types
 --> src/lib.rs:2:5
For more information about this error, try `rustc --explain E0308`.
error: could not compile `shop` (lib) due to 1 previous error
"""
JEST = """
FAIL ./tax.test.js
  ● tax › rounds half up

    expect(received).toBe(expected) // Object.is equality

    Expected: 0.13
    Received: 0.12

Test Suites: 1 failed, 1 total
Time:        0.4 s
npm ERR! Test failed.  See above for more details.
"""
JEST_ERROR = """
FAIL ./tax.test.js
  ● tax › rounds half up

    TypeError: tax is not a function

      1 | test("tax", () => {
    > 2 |   expect(tax()).toBe(0.13);

Test Suites: 1 failed, 1 total
"""
JEST_SNAPSHOT = """
  ● tax › prints the receipt

    expect(received).toMatchSnapshot()

    - Snapshot  - 1
    + Received  + 1

    - 0.13
    + 0.12
"""
TSC = "src/tax.ts(3,5): error TS2322: Type 'string' is not assignable to type 'number'.\n"
TSC_PRETTY = """
src/tax.ts:3:5 - error TS2322: Type 'string' is not assignable.

3     return "a";
      ~~~~~~

Found 1 error in src/tax.ts:3
"""
GCC = """
gcc -c tax.c
tax.c: In function 'tax':
tax.c:3:12: error: 'half' undeclared (first use in this function)
    3 |     return half;
      |            ^~~~
make: *** [Makefile:2: tax.o] Error 1
"""
LINKER = """
/usr/bin/ld: a.o: in function `f':
a.c:(.text+0x9): undefined reference to `half'
collect2: error: ld returned 1 exit status
"""
MAKE = """
python3 check.py
0.12 is not what the law says
make[1]: *** [Makefile:3: check] Error 1
make: *** [Makefile:9: all] Error 2
"""
TRACEBACK = """
Traceback (most recent call last):
  File "/tmp/q/check.py", line 3, in <module>
    raise ValueError("0.12 is wrong")
ValueError: 0.12 is wrong
"""


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (PYTEST, "FAILED tests/test_tax.py::test_half - assert 0.12 == 0.13"),
        (UNITTEST, "AssertionError: 0.12 != 0.13 in test_half_cent"),
        (GO, "tax_test.go:9: got 0.12, want 0.13 in TestHalf"),
        ("./tax.go:3:5: undefined: half\nFAIL\tshop [build failed]\n", "./tax.go:3:5: undefined: half"),
        (CARGO, "assertion `left == right` failed in tests::half"),
        (RUSTC, "error[E0308]: mismatched types"),
        (JEST, "Received: 0.12, expected 0.13 in tax › rounds half up"),
        (JEST_ERROR, "TypeError: tax is not a function in tax › rounds half up"),
        (JEST_SNAPSHOT, "● tax › prints the receipt"),
        (TSC, TSC.strip()),
        (TSC_PRETTY, "src/tax.ts:3:5 - error TS2322: Type 'string' is not assignable."),
        (GCC, "tax.c:3:12: error: 'half' undeclared (first use in this function)"),
        (LINKER, "a.c:(.text+0x9): undefined reference to `half'"),
        (MAKE, "0.12 is not what the law says"),
        (TRACEBACK, "ValueError: 0.12 is wrong"),
        ("sh: 1: pytset: not found\n", "sh: 1: pytset: not found"),
        ("grep: three.txt: No such file or directory\n", "grep: three.txt: No such file or directory"),
        ("checking\nerror: no such flag --fast\nsee --help\n", "error: no such flag --fast"),
        ("1..2\nok 1 - a\nnot ok 2 - rounds half up\n# done\n", "not ok 2 - rounds half up"),
        ("one\ntwo\n\n", "two"),
        ("it is 0.12\nFAILED\n", "it is 0.12"),
        ("exit status 1\n", "exit status 1"),
        ("", ""),
        ("\n ----- \n", ""),
        ("修正\n小数点が違う\n", "小数点が違う"),
    ],
)
def test_the_line_that_says_what_failed(output: str, line: str) -> None:
    assert telling_line(output) == line
    told = find_telling(output)
    assert output[told.start : told.end] + told.of == line


@pytest.mark.parametrize("piece", ["a", "a ", "a: ", "a.", "E1::", "-- ", "\n", "x:1: ", "'", "AError"])
def test_no_output_takes_long(piece: str) -> None:
    telling_line(
        piece * (1_000_000 // len(piece))
    )  # the suite's time-out is the assertion: quadratic, it is minutes
