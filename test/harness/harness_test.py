#!/usr/bin/env python3
"""Tests that the test scripts fail whenever a suite did not run as it should: scripts/dev/report-tests with made-up logs,
scripts/test with fake builds, scripts/dev/check-tidy without time, and the other style checks with broken files.

    harness_test.py SCRIPTS      SCRIPTS: the directory scripts; the last line is "N passed, N failed"
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SCRIPTS = pathlib.Path(sys.argv[1]).resolve()
PASSED_3 = "All tests passed (7 assertions in 3 test cases)\n"

# Replaces Meson: makes a build directory, lists the tests of a suite, writes a log. FAKE names a directory: if it has a file
# `setup`, meson setup fails; `names` lists the tests; `log` is the log of a run, which writes none if the file is missing;
# `tests` is what meson knows of tests and targets. `run` gets the names of the tests of the last run.
FAKE_MESON = """#!/bin/bash
case $1 in
  setup)
    [ ! -e "$FAKE/setup" ] || { echo "ERROR: Dependency not found"; exit 1; }
    mkdir -p "$2/meson-logs" && touch "$2/build.ninja" ;;
  configure) ;;
  introspect) cat "$FAKE/tests" ;;
  test)
    shift 2
    build=$1
    case " $* " in
      *' --list '*) sed 's|^|dtrain:x / |' "$FAKE/names" ;;
      *) for word; do case $word in testlog-*) name=$word ;; esac; done
         words=$*; echo "${words##* --quiet }" >"$FAKE/run"
         [ ! -e "$FAKE/log" ] || cp "$FAKE/log" "$build/meson-logs/$name.json"
         exit 3 ;;
    esac ;;
esac
"""
FAKE_NINJA = """#!/bin/bash
[ "$#" -eq 3 ] && [ "$3" = build.ninja ] || echo "${@:3}" >"$FAKE/built"
[ ! -e "$FAKE/broken" ] || { echo "FAILED: a.o"; exit 1; }
"""


class Skip(Exception):
    """Why a test cannot run on this host."""


def needs(program):
    if shutil.which(program) is None:
        raise Skip(f"no {program} (scripts/setup --style)")


def entry(name="base", result="OK", text=PASSED_3, **more):
    return json.dumps({"name": f"dtrain:fast / {name}", "result": result, "duration": 1.0, "stdout": text, **more}) + "\n"


class Tree:
    """A directory with the scripts, the files of test/expected and a fake build, but without the project."""

    def __init__(self):
        self.holder = tempfile.TemporaryDirectory(prefix="dtrain harness ")  # a path with blanks
        self.path = pathlib.Path(self.holder.name)
        shutil.copytree(SCRIPTS, self.path / "scripts", symlinks=True)
        self.write("scripts/setup", "#!/bin/bash\n", 0o755)
        self.write("bin/meson", FAKE_MESON, 0o755)
        self.write("bin/ninja", FAKE_NINJA, 0o755)
        self.write("fake/names", "base\n")
        self.write("root/etc/os-release", 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12"\n')
        self.write("docs/mxnet.md", "# The scripts' comments name this file\n")
        self.expect("", "")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.holder.cleanup()

    def write(self, name, text, mode=0o644):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def expect(self, tests, skips):
        self.write("test/expected/tests.txt", "# a head\n" + tests)
        self.write("test/expected/skips.txt", "# a head\n" + skips)
        self.write("test/expected/minutes.txt", "# a head\nfast 5\nstyle 2\nasan 3\n")

    def run(self, *command, **environment):
        path = f"{self.path}/bin:{os.environ['PATH']}"
        # .ci/run and whoever repeats a failure set some of them.
        without = {name: value for name, value in os.environ.items() if not name.startswith("DTRAIN_")}
        return subprocess.run([str(word) for word in command], cwd=self.path, capture_output=True, text=True,
                              env={**without, "PATH": path, "FAKE": str(self.path / "fake"), "DPKG_ROOT": str(self.path / "root"),
                                   **environment})

    def report(self, log, *names, suite="fast", **environment):
        """(passed, failed, skipped) for a log with this text; None: there is no log."""
        path = self.path / "log.json"
        path.unlink(missing_ok=True)
        if log is not None:
            path.write_text(log)
        ended = self.run("scripts/dev/report-tests", suite, path, *names, **environment)
        self.errors = ended.stderr
        return tuple(int(n) for n in ended.stdout.split())

    def git(self):
        """Makes the tree a repository, with one commit."""
        who = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-q", "-m", "all"]):
            assert self.run("git", *words).returncode == 0


def test_counts_what_catch_and_scripts_say():
    with Tree() as tree:
        assert tree.report(entry(), "base") == (3, 0, 0)
        one_failed = "test cases:  4 | 3 passed | 1 failed\nassertions: 9 | 8 passed | 1 failed\n"
        assert tree.report(entry(result="FAIL", text=one_failed)) == (3, 1, 0)
        as_expected = "test cases: 4 | 3 passed | 1 failed as expected\n"
        assert tree.report(entry(text=as_expected)) == (4, 0, 0)
        assert tree.report(entry(text="chatter\n5 passed, 0 failed\n")) == (5, 0, 0)
        assert tree.report(entry() + entry("rpc kill")) == (6, 0, 0)


def test_a_log_that_cannot_be_used_is_a_failure():
    with Tree() as tree:
        for log in (None, "", "no json\n", entry() + entry()[:40], '{"result": "OK"}\n'):
            assert tree.report(log, "base") == (0, 1, 0), log
            assert "cannot be used" in tree.errors


def test_a_test_that_did_not_run_is_a_failure():
    with Tree() as tree:
        assert tree.report(entry(), "base", "rpc") == (3, 1, 0)
        assert "rpc did not run" in tree.errors
        tree.expect("fast rpc kill 2\nslow learning 1\n", "")
        assert tree.report(entry()) == (3, 1, 0)
        assert "rpc kill did not run" in tree.errors


def test_a_program_without_test_cases_is_a_failure():
    with Tree() as tree:
        for text in ("No test cases matched '[typo]'\nNo tests ran\n", "", "0 passed, 0 failed\n",
                     "All tests passed (0 assertions in 0 test cases)\n"):
            assert tree.report(entry(text=text)) == (0, 1, 0), text
            assert "ran no test cases" in tree.errors


def test_a_bad_end_without_a_failed_case_is_a_failure():
    with Tree() as tree:
        for result in ("FAIL", "TIMEOUT", "ERROR", "INTERRUPT", "UNEXPECTEDPASS"):
            assert tree.report(entry(result=result)) == (3, 1, 0), result
        assert tree.report(entry(result="FAIL", text="")) == (0, 1, 0)


def test_fewer_test_cases_than_recorded_are_a_failure():
    with Tree() as tree:
        tree.expect("fast base 4\n", "")
        assert tree.report(entry()) == (3, 1, 0)
        assert "3 test cases instead of at least 4" in tree.errors
        tree.expect("fast base 3\nslow base 9\n", "")
        assert tree.report(entry()) == (3, 0, 0)


def test_only_allowed_skips_pass():
    skip = entry(text="skipped: no data\n" + PASSED_3)
    with Tree() as tree:
        assert tree.report(skip) == (2, 1, 1)
        assert "an unexpected skip" in tree.errors and "no data" in tree.errors
        tree.expect("", "always no data\n")
        assert tree.report(skip) == (2, 0, 1)
        tree.expect("", "always no dat\n")  # the whole cause must match
        assert tree.report(skip) == (2, 1, 1)
        tree.expect("fast base 3\n", "no-data no data\n")  # a skipped test case is one that is there
        assert tree.report(skip) == (2, 0, 1)
        assert tree.report(skip, DTRAIN_TEST_DATA="/data") == (2, 1, 1)
        assert tree.report(entry(result="SKIP", text="")) == (0, 1, 1) or tree.errors


def test_recorded_numbers_can_be_updated():
    with Tree() as tree:
        listing = "Matching test cases:\n  a\n      [slow]\n  b, c\n2 matching test cases\n\n"
        program = tree.write("base_test", f"#!/bin/bash\n[ \"$*\" = '~[slow] --list-tests' ] && printf '{listing}'\nexit 2\n", 0o755)
        tests = [{"name": "base", "cmd": [str(program), "~[slow]"]}, {"name": "script", "cmd": ["/bin/false"]}]
        tree.write("bin/meson", f"#!/bin/bash\necho '{json.dumps(tests)}'\n", 0o755)
        tree.expect("fast base 7\nfast gone 2\nfast script 3\nslow learning 1\n", "")
        ended = tree.run("scripts/dev/report-tests", "--update", "build", "fast", "base", "script", "rpc kill")
        assert ended.returncode == 0, ended
        text = (tree.path / "test/expected/tests.txt").read_text()
        assert text == "# a head\nfast base 2\nfast rpc kill 1\nfast script 3\nslow learning 1\n", text


def last_line(ended):
    return ended.stdout.splitlines()[-1]


def test_the_last_line_is_the_total():
    with Tree() as tree:
        tree.write("fake/log", entry())
        ended = tree.run("scripts/test", "fast")
        assert (last_line(ended), ended.returncode) == ("3 passed, 0 failed", 0), ended
        assert "minutes of at most 5" in ended.stdout
        tree.expect("", "always no data\n")
        tree.write("fake/log", entry(text="skipped: no data\n" + PASSED_3))
        assert last_line(tree.run("scripts/test", "fast")) == "2 passed, 0 failed, 1 skipped"


def test_a_suite_that_was_not_built_or_run_is_red():
    def red(spoil, suite="fast"):
        with Tree() as tree:
            tree.write("fake/log", entry())
            spoil(tree)
            ended = tree.run("scripts/test", suite)
            assert ended.returncode != 0 and last_line(ended).endswith("0 passed, 1 failed"), ended

    red(lambda tree: tree.write("fake/setup", ""))
    red(lambda tree: tree.write("fake/setup", ""), "style")
    red(lambda tree: tree.write("fake/setup", ""), "asan")
    red(lambda tree: tree.write("fake/setup", ""), "fuzz")
    red(lambda tree: tree.write("fake/broken", ""))
    red(lambda tree: tree.write("fake/names", ""))
    red(lambda tree: (tree.path / "fake/log").unlink())
    red(lambda tree: tree.write("scripts/setup", "#!/bin/bash\nexit 1\n", 0o755))


def test_what_failed_stands_before_the_total():
    with Tree() as tree:
        dashes, dots = "-" * 79 + "\n", "." * 79 + "\n\n"
        catch = ("~" * 79 + f"\nbase_test is a Catch host application.\n\n{dashes}a sum\n  of two\n{dashes}../test/a_test.cc:5\n{dots}" +
                 "../test/a_test.cc:7: FAILED:\n  CHECK( a )\nwith expansion:\n  false\n\n" +
                 "test cases: 4 | 3 passed | 1 failed\n")
        race = "SUMMARY: ThreadSanitizer: data race a.cc:3 in f\n" + PASSED_3
        tree.write("fake/log", entry(result="FAIL", text=catch) +
                   entry("data", result="FAIL", text=race) +
                   entry("docs", result="FAIL", text="fine\nFAILED README.md:7: ls\nFAILED README.md:9: cat\n1 passed, 2 failed\n"))
        ended = tree.run("scripts/test", "fast")
        assert ended.stdout.splitlines()[-4:] == [
            "FAILED: fast base: 1 failed, first 'a sum / of two' at ../test/a_test.cc:7: CHECK( a ) (fail, 1.0 s)",
            "FAILED: fast data: ended badly (fail); ThreadSanitizer: data race a.cc:3 in f (fail, 1.0 s)",
            "FAILED: fast docs: 2 failed, first README.md:7: ls (fail, 1.0 s)",
            "7 passed, 4 failed"], ended
        tree.write("fake/broken", "")
        assert tree.run("scripts/test", "fast").stdout.splitlines()[-2] == "FAILED: the build in build"


def test_a_program_that_meson_has_and_the_log_has_not_is_red():
    with Tree() as tree:
        tree.write("fake/log", entry())
        tree.write("fake/names", "base\nrpc kill\n")
        ended = tree.run("scripts/test", "fast")
        assert (last_line(ended), ended.returncode) == ("3 passed, 1 failed", 1)


def test_each_check_of_the_style_is_a_test():
    with Tree() as tree:
        for path in (tree.path / "scripts/dev").glob("check-*"):
            tree.write(f"scripts/dev/{path.name}", "#!/bin/bash\necho fine\n", 0o755)
        total = len(list((tree.path / "scripts/dev").glob("check-*")))
        assert last_line(tree.run("scripts/test", "style")) == f"{total} passed, 0 failed"
        tree.write("scripts/dev/check-format", "#!/bin/bash\necho 'a.cc: ugly'\nexit 1\n", 0o755)
        tree.write("scripts/dev/check-kernels", "#!/bin/bash\necho 'skipped: tired'\nexit 77\n", 0o755)
        ended = tree.run("scripts/test", "style")
        assert last_line(ended) == f"{total - 2} passed, 2 failed, 1 skipped", ended
        assert "a.cc: ugly" in ended.stderr and "tired" in ended.stderr


def test_the_directory_with_data_may_be_relative():
    with Tree() as tree:
        tree.write("fake/log", entry())
        tree.write("data/mnist", "")
        # The fake meson passes on what a test would see.
        tree.write("bin/meson", FAKE_MESON.replace("  test)\n", '  test)\n    printf %s "$DTRAIN_TEST_DATA" >"$FAKE/data"\n'), 0o755)
        assert last_line(tree.run("scripts/test", "fast", DTRAIN_TEST_DATA="data")) == "3 passed, 0 failed"
        assert (tree.path / "fake/data").read_text() == str((tree.path / "data").resolve())
        ended = tree.run("scripts/test", "fast", DTRAIN_TEST_DATA="dtaa")
        assert ended.returncode == 1 and "DTRAIN_TEST_DATA=dtaa is not a directory" in ended.stderr


def with_rooms(tree):
    """Three programs in the rooms sync and exec, as meson knows them, and a log in which all have run."""
    tests, targets = [], []
    for name, room in (("sync", "sync"), ("exec", "exec"), ("exec_cpu", "exec/cpu"), ("train", "train")):
        program = str(tree.path / f"build/test/{room}/{name}_test")
        tests.append({"name": name, "cmd": [program], "depends": [f"{name}@exe"]})
        targets.append({"id": f"{name}@exe", "filename": [program], "build_by_default": True})
        tree.write(f"test/{room.split('/')[0]}/meson.build", f"test('{name}', x, suite: 'fast')\n")
    targets.append({"id": "dtrain@exe", "filename": [str(tree.path / "build/cmd/dtrain")], "build_by_default": True})
    tree.write("fake/names", "sync\nexec\nexec_cpu\ntrain\n")
    # With --tests alone, meson prints the list of tests, and with --targets too both lists.
    tree.write("fake/both", json.dumps({"tests": tests, "targets": targets}))
    tree.write("fake/one", json.dumps(tests))
    fake = FAKE_MESON.replace('cat "$FAKE/tests"', 'case " $* " in *" --targets "*) cat "$FAKE/both" ;; *) cat "$FAKE/one" ;; esac')
    tree.write("bin/meson", fake, 0o755)
    tree.expect("fast sync 3\nfast exec 3\nfast exec_cpu 3\nfast train 3\n", "")


def test_only_the_programs_of_the_rooms_are_built_and_run():
    with Tree() as tree:
        with_rooms(tree)
        tree.write("fake/log", entry("exec") + entry("exec_cpu"))
        ended = tree.run("scripts/test", "fast", "exec")
        assert (last_line(ended), ended.returncode) == ("6 passed, 0 failed", 0), ended
        assert (tree.path / "fake/run").read_text() == "exec exec_cpu\n"
        assert (tree.path / "fake/built").read_text() == "test/exec/cpu/exec_cpu_test test/exec/exec_test\n"
        # A program of the room that did not run is missed; a program that meson no longer has is so, too.
        tree.write("fake/log", entry("exec"))
        assert last_line(tree.run("scripts/test", "exec")) == "3 passed, 1 failed"
        tree.write("fake/log", entry("sync"))
        tree.expect("fast sync 3\nfast gone 3\n", "")
        assert last_line(tree.run("scripts/test", "fast", "sync")) == "3 passed, 1 failed"


def test_an_unknown_suite_or_room_is_refused():
    with Tree() as tree:
        with_rooms(tree)
        ended = tree.run("scripts/test", "fsat")
        assert ended.returncode == 1 and "unknown suite or room 'fsat'; the suites are fast slow" in ended.stderr
        ended = tree.run("scripts/test", "fast", "sink")
        assert ended.returncode == 1 and "'sink'" in ended.stderr and "the rooms are exec sync train\n" in ended.stderr, ended
        ended = tree.run("scripts/test", "cluster", "sync")
        assert ended.returncode == 1 and "suite cluster has no rooms" in ended.stderr, ended


def test_what_asan_compares_too_runs_there_alone():
    with Tree() as tree:
        with_rooms(tree)
        tree.write("fake/log", entry("sync") + entry("exec") + entry("exec_cpu") + entry("train"))
        tree.run("scripts/test", "fast")
        assert (tree.path / "fake/run").read_text() == "sync exec exec_cpu train\n"
        tree.write("fake/log", entry("sync") + entry("exec") + entry("exec_cpu"))
        tree.write("fake/built", "")
        ended = tree.run("scripts/test", "fast", "asan")  # asan's programs are not in the fake build
        assert "suite fast: 9 passed, 0 failed" in ended.stdout, ended
        assert (tree.path / "fake/run").read_text() == "sync exec exec_cpu\n"
        assert "train_test" not in (tree.path / "fake/built").read_text()
        assert "cmd/dtrain" in (tree.path / "fake/built").read_text()


def test_the_slowest_cases_and_the_seed_are_printed():
    with Tree() as tree:
        cases = "".join(f"{seconds}.500 s: case {seconds}\n" for seconds in range(1, 12))
        tree.write("fake/log", entry(text=cases + PASSED_3))
        ended = tree.run("scripts/test", "fast")
        lines = ended.stdout.splitlines()
        first = lines.index("== the slowest test cases:") + 1
        assert lines[first] == "  11.5 s  fast base: case 11" and len(lines) == first + 11, ended
        assert any(line.startswith("   fast") and "building" in line for line in lines), ended
        assert "DTRAIN_TEST_SEED=" in ended.stdout
        assert "DTRAIN_TEST_SEED=77\n" in tree.run("scripts/test", "fast", DTRAIN_TEST_SEED="77").stdout
        tree.write("fake/log", entry(text="fine\n1 passed, 0 failed\n"))  # a script, which has no times of its cases
        assert "\n   1.0 s  fast base\n" in tree.run("scripts/test", "fast").stdout


def test_suites_of_debian_12_are_refused_elsewhere():
    with Tree() as tree:
        tree.write("root/etc/os-release", 'ID=debian\nVERSION_ID="13"\nPRETTY_NAME="Debian GNU/Linux 13"\n')
        tree.write("fake/log", entry())
        tree.write("scripts/setup", '#!/bin/bash\necho "setup $*"\n', 0o755)
        ended = tree.run("scripts/test", "style", "fast")
        assert last_line(ended) == "3 passed, 1 failed" and "\nsetup --test\n" in ended.stdout, ended
        assert "FAILED: suite style is refused: it runs on Debian 12 only" in ended.stdout, ended
        assert "this is Debian GNU/Linux 13" in ended.stdout, ended
        for suite in ("asan", "tsan", "fuzz"):
            ended = tree.run("scripts/test", suite)
            assert last_line(ended) == "0 passed, 1 failed" and "setup" not in ended.stdout, ended


def test_the_build_of_the_quickstart_gets_tests():
    with Tree() as tree:
        tree.write("fake/log", entry())
        tree.write("bin/meson", FAKE_MESON.replace("  configure) ;;", '  configure) echo "$*" >>"$FAKE/configured" ;;'), 0o755)
        tree.write("build/build.ninja", "")
        tree.write("build/meson-logs/x", "")
        for value, configured in ((True, False), (False, True)):
            for indent in (None, 2):  # as versions of Meson write it
                tree.write("build/meson-info/intro-buildoptions.json",
                           json.dumps([{"name": "tests", "value": value, "section": "user"}], indent=indent))
                assert last_line(tree.run("scripts/test", "fast")) == "3 passed, 0 failed"
                assert (tree.path / "fake/configured").exists() == configured
        assert (tree.path / "fake/configured").read_text() == 2 * "configure build -Dtests=true\n"


def test_each_suite_has_its_packages():
    with Tree() as tree:
        tree.write("fake/log", entry())
        tree.write("scripts/setup", '#!/bin/bash\necho "setup $*"\n', 0o755)
        for suite, sets in (("fast", "--test"), ("style", "--test --style"), ("fuzz", "--test --fuzz")):
            assert f"setup {sets}\n" in tree.run("scripts/test", suite).stdout


def test_a_changed_file_that_tidy_did_not_look_at_is_red():
    with Tree() as tree:
        for name in ("a", "b"):
            tree.write(f"lib/{name}.cc", f"int {name};\n")
        # Looks at the first file, and ends at the second one as if its time had been over.
        tree.write("bin/clang-tidy", "#!/bin/bash\ncase $* in *lib/b.cc) exit 124 ;; esac\n", 0o755)
        tree.write("build-style/compile_commands.json", "[]\n")
        tree.git()
        own = {"DTRAIN_TIDY_CACHE": str(tree.path / "passed")}
        ended = tree.run("scripts/dev/check-tidy", DTRAIN_TIDY_SECONDS="0", **own)
        assert ended.returncode == 1 and "0 of 2 changed files looked at" in ended.stdout, ended
        ended = tree.run("scripts/dev/check-tidy", **own)
        assert ended.returncode == 1 and "1 of 2 changed files looked at" in ended.stdout, ended
        assert ended.stdout.splitlines()[-1] == "lib/b.cc", ended
        tree.write("bin/clang-tidy", "#!/bin/bash\n", 0o755)
        ended = tree.run("scripts/dev/check-tidy", **own)
        assert ended.returncode == 0 and "2 of 2 changed files looked at" in ended.stdout, ended
        # What has passed is not looked at again, unless it or a header changes.
        tree.write("bin/clang-tidy", "#!/bin/bash\ncase $* in --version) ;; *) echo finding; exit 1 ;; esac\n", 0o755)
        assert tree.run("scripts/dev/check-tidy", **own).returncode == 0
        tree.write("lib/a.cc", "int other;\n")
        ended = tree.run("scripts/dev/check-tidy", **own)
        assert ended.returncode == 1 and ended.stdout.count("finding") == 1, ended
        tree.write("lib/a.h", "int c;\n")
        tree.run("git", "add", "-A")
        ended = tree.run("scripts/dev/check-tidy", **own)
        assert ended.returncode == 1 and ended.stdout.count("finding") == 2, ended


def test_nightly_runs_its_parts_and_names_those_that_failed():
    with Tree() as tree:
        tree.write("test/mutations/run", "#!/bin/bash\necho 'all noticed'\n", 0o755)
        ended = tree.run("scripts/dev/nightly", "mutations")
        assert (last_line(ended), ended.returncode) == ("1 passed, 0 failed", 0), ended
        tree.write("fake/log", entry())
        tree.write("scripts/test", "#!/bin/bash\n[ $((DTRAIN_TEST_SEED % 2)) = 0 ]\n", 0o755)
        ended = tree.run("scripts/dev/nightly", "orders", "mutations", DTRAIN_NIGHTLY_ORDERS="2")
        assert (last_line(ended), ended.returncode) == ("2 passed, 1 failed", 1), ended
        assert ended.stdout.splitlines()[-2].startswith("FAILED: fast in the order of seed "), ended
        ended = tree.run("scripts/dev/nightly", "fuz")
        assert ended.returncode == 1 and "unknown part 'fuz'; the parts are slow orders kills" in ended.stderr


def test_a_broken_link_or_name_is_red():
    with Tree() as tree:
        tree.write("docs/b.md", "# A head\n")
        tree.write("docs/a.md", "[b](b.md#a-head), `scripts/{test,setup}`, docs/*.md, docs/SOMETHING.md, `Store::next_step`\n")
        tree.write("lib/a.h", "class Store {\n  void next_step();\n};\n")
        tree.write("README.md", "[a](docs/a.md), [b](docs/b.md), [MXNet](docs/mxnet.md)\n")
        tree.git()
        ended = tree.run("scripts/dev/check-links")
        assert ended.returncode == 0, ended
        for text in ("[b](c.md)", "[b](b.md#no-head)", "`scripts/absent`", "scripts/{test,absent}", "docs/c*.md", "`Store::last_step()`"):
            tree.write("docs/a.md", text + "\n")
            ended = tree.run("scripts/dev/check-links")
            assert ended.returncode == 1 and "docs/a.md:1" in ended.stdout, (text, ended)
        tree.write("docs/a.md", "a\n")
        tree.write("README.md", "[b](docs/b.md), [MXNet](docs/mxnet.md)\n")
        ended = tree.run("scripts/dev/check-links")
        assert ended.returncode == 1 and ended.stdout == "README.md: does not list docs/a.md\n", ended


def test_a_comment_that_names_what_is_absent_is_red():
    with Tree() as tree:
        tree.write("docs/b.md", "# A head\n")
        begin = "/" * 2  # no comment of this file
        tree.write("lib/a.cc", f'{begin} See docs/b.md, "A head", and README.md.\nint md = memory.md;  {begin} b.md\n'
                   f"{begin} lib/a.cc, lib/*.cc, tools/mxnet.py\n")
        tree.write("README.md", "[b](docs/b.md), [MXNet](docs/mxnet.md)\n")
        tree.git()
        ended = tree.run("scripts/dev/check-links")
        assert ended.returncode == 0, ended
        for text in ("See c.md.", 'See docs/b.md, "No head".', "docs/c.md", "The order of R" + "-D9.", "as in lib/b.cc"):
            tree.write("lib/a.cc", f"{begin} {text}\n")
            ended = tree.run("scripts/dev/check-links")
            assert ended.returncode == 1 and "lib/a.cc:1" in ended.stdout, (text, ended)


def test_a_name_that_was_given_up_is_red():
    with Tree() as tree:
        old, new = "hand_over_" + "nothing", "push_zero_gradients"  # in two parts: this file is searched too
        tree.write("lib/a.cc", f"void {new}();\nvoid {old}_twice();\n")
        tree.write("CHANGELOG.md", f"{old} is now {new}\n")
        tree.git()
        ended = tree.run("scripts/dev/check-names")
        assert ended.returncode == 0, ended
        for name in ("lib/a.cc", "docs/a.md", "test/a_test.cc", "scripts/run.sh"):
            tree.write(name, f"\n  // see {old}(), which\n")
            tree.run("git", "add", "-A")
            ended = tree.run("scripts/dev/check-names")
            problem = f"{name}:2: uses the old name {old}; the new one is {new}"
            assert ended.returncode == 1 and ended.stdout == problem + "\n", ended
            tree.write(name, "")


def test_a_name_twice_in_a_unity_build_is_red():
    def unnamed(text):
        return f"namespace {{\n\n{text}\n\n}}  // namespace\n"

    with Tree() as tree:
        for room, options in (("lib/a", ""), ("lib/b", ""), ("lib/off", "override_options: 'unity=off'")):
            tree.write(f"{room}/meson.build", f"static_library('x', {options})\n")
            tree.write(f"{room}/one.cc", unnamed("constexpr int kSize = 1;\nusing Number = int;\nvoid add(int a) {}"))
        tree.write("lib/a/more/two.cc", unnamed("using Number = int;\nvoid add(double a) {}\nvoid size(int kSize) {}"))
        tree.write("lib/off/two.cc", unnamed("constexpr int kSize = 1;"))
        tree.git()
        ended = tree.run("scripts/dev/check-unity")
        assert ended.returncode == 0 and "no name twice" in ended.stdout, ended
        for text, name in (
            ("constexpr int kSize = 2;", "kSize"),
            ("struct kSize {\n};", "kSize"),
            ("using Number = long;", "Number"),
            ("int add(int b) {\n}", "add"),
        ):
            tree.write("lib/a/more/two.cc", unnamed(text))
            ended = tree.run("scripts/dev/check-unity")
            assert ended.returncode == 1 and f"{name} is also in lib/a/" in ended.stdout, (text, ended)


def test_a_branch_for_all_other_operators_is_red():
    with Tree() as tree:
        tree.write("lib/tools/a.cc", "int a = visit([](const auto&) {});\n")  # not a room that visits operators
        tree.write("lib/exec/a.cc", "int a = visit([](const auto& op) { return f(op); });\n")
        ended = tree.run("scripts/dev/check-functions")
        assert ended.returncode == 0, ended
        tree.write("lib/exec/b.cc", "\nint a = visit([](const auto&) {});\n")
        ended = tree.run("scripts/dev/check-functions")
        assert ended.returncode == 1 and "lib/exec/b.cc:2" in ended.stdout, ended


def test_a_function_that_is_too_long_is_red():
    def function(name, lines):
        return f"void {name}() {{\n" + "  work();\n" * (lines - 2) + "}\n\n"

    with Tree() as tree:
        short = "".join(function(f"f{i}", 3) for i in range(200))
        tree.write("lib/a/a.cc", short + function("g", 100))  # a long file is none of its business
        ended = tree.run("scripts/dev/check-functions")
        assert ended.returncode == 0 and "the longest has 100" in ended.stdout, ended
        tree.write("lib/a/a.cc", short + function("g", 101))
        ended = tree.run("scripts/dev/check-functions")
        assert ended.returncode == 1 and "lib/a/a.cc:801: 101 lines: void g() {" in ended.stdout, ended
        tree.write("lib/a/a.cc", "".join(function(f"f{i}", 3 + 37 * (i % 10 == 0)) for i in range(200)))
        ended = tree.run("scripts/dev/check-functions")
        assert ended.returncode == 1 and "90.0 % below 40 lines" in ended.stdout, ended


def test_a_finding_of_shellcheck_is_red():
    needs("shellcheck")
    with Tree() as tree:
        shutil.rmtree(tree.path / "bin")
        tree.git()
        ended = tree.run("scripts/dev/check-shell")
        assert ended.returncode == 0, ended
        tree.write("scripts/bad", "#!/bin/bash\nrm -rf $1/*\n", 0o755)
        tree.run("git", "add", "-A")
        ended = tree.run("scripts/dev/check-shell")
        assert ended.returncode == 1 and "SC2086" in ended.stdout, ended


LOCKED = """#include "base/mutex.h"
class Counter {
 public:
  void add() DT_EXCLUDES(mutex_) {
    const dtrain::MutexLock lock(mutex_);
    count_++;
    changed_.notify_all();
  }
  void wait_for(int count) {
    const dtrain::MutexLock lock(mutex_);
    changed_.wait(mutex_, [&]() DT_REQUIRES(mutex_) { return count_ >= count; });
    const dtrain::MutexUnlock unlocked(mutex_);
    add();
  }

 private:
  dtrain::Mutex mutex_;
  dtrain::ConditionVariable changed_;
  int count_ DT_GUARDED_BY(mutex_) = 0;
};
void use(Counter& counter) { counter.add(); }
"""


def locks_tree(tree):
    """A project of lib/base/mutex.h and lib/a.cc, built with an option that only gcc knows."""
    tree.write("lib/base/mutex.h", (SCRIPTS.parent / "lib/base/mutex.h").read_text())
    command = "ccache c++ -I../lib -std=c++20 -fvect-cost-model=dynamic -o a.o -c ../lib/a.cc"
    entry_of_a = {"directory": str(tree.path / "build-style"), "command": command, "file": "../lib/a.cc"}
    tree.write("build-style/compile_commands.json", json.dumps([entry_of_a]))
    tree.write("lib/a.cc", LOCKED)


def test_what_a_mutex_guards_is_used_with_it_held():
    needs("clang++")
    with Tree() as tree:
        locks_tree(tree)
        ended = tree.run("scripts/dev/check-locks")
        assert ended.returncode == 0 and "1 files checked, 0 failures" in ended.stdout, ended
        for right, wrong, finding in (
            ("    const dtrain::MutexLock lock(mutex_);\n    count_++", "    count_++", "requires holding mutex 'mutex_'"),
            ("[&]() DT_REQUIRES(mutex_)", "[&]()", "requires holding mutex 'mutex_'"),
            ("    const dtrain::MutexUnlock unlocked(mutex_);\n", "", "while mutex 'mutex_' is held"),
            ("int count_ DT_GUARDED_BY(mutex_)", "int count_", "mutex_: what does it guard"),
            ("#include", "#include <mutex>\nstd::mutex other;\n#include", "lib/a.cc:2: std::mutex"),
        ):
            assert right in LOCKED
            tree.write("lib/a.cc", LOCKED.replace(right, wrong, 1))
            ended = tree.run("scripts/dev/check-locks")
            assert ended.returncode == 1 and finding in ended.stdout, (wrong, ended)


def test_locks_that_were_not_looked_at_are_red():
    needs("clang++")
    with Tree() as tree:
        locks_tree(tree)
        tree.write("build-style/compile_commands.json", "[]\n")
        ended = tree.run("scripts/dev/check-locks")
        assert ended.returncode == 1 and "lib/a.cc: is in no meson.build" in ended.stdout, ended
        tree.write("lib/a.cc", "int a;\n")
        ended = tree.run("scripts/dev/check-locks")
        assert ended.returncode == 1 and "0 files checked" in ended.stdout, ended


def test_each_command_of_the_documents_is_in_the_list_of_commands():
    program = SCRIPTS.parent / "test/docs/commands"
    ended = subprocess.run([program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and ended.stdout == "0 passed, 0 failed\n", ended


def main():
    failed, skipped = 0, 0
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    for name, test in tests:
        try:
            test()
        except Skip as cause:
            skipped += 1
            print(f"skipped: {cause}")
        except Exception as error:  # whatever it is, the other tests run
            failed += 1
            line = error.__traceback__.tb_next and error.__traceback__.tb_next.tb_lineno
            print(f"FAILED {name}, line {line}: {type(error).__name__}: {error}")
    print(f"{len(tests) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


sys.exit(main())
