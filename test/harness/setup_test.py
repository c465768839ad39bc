#!/usr/bin/env python3
"""Tests what scripts/setup and scripts/quickstart do to a system, with made-up packages, services and releases.

    setup_test.py SCRIPTS      SCRIPTS: the directory scripts; the last line is "N passed, N failed"
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SCRIPTS = pathlib.Path(sys.argv[1]).resolve()

# Knows the packages in $FAKE/installed.
FAKE_DPKG_QUERY = """#!/bin/bash
grep -qx "${@: -1}" "$FAKE/installed" && printf 'install ok installed'
"""
# Adds packages to that list, and what runs at their installation: $FAKE/postinst. "install --assume-no" says what it would do.
FAKE_APT_GET = """#!/bin/bash
printf 'apt-get %s\\n' "$*" >>"$FAKE/calls"
case "$*" in
  *--assume-no*)
    printf '0 upgraded, 7 newly installed, 0 to remove and 0 not upgraded.\\nNeed to get 34.7 MB/35.1 MB of archives.\\n'
    printf 'After this operation, 1,202 MB of additional disk space will be used.\\nAbort.\\n'
    exit 1 ;;
  install*)
    for word in "${@:2}"; do printf '%s\\n' "$word" >>"$FAKE/installed"; done
    . "$FAKE/postinst" ;;
esac
"""
FAKE_UPDATE_RC = """#!/bin/bash
[ "$2" = disable ] && for link in "$DPKG_ROOT"/etc/rc2.d/S??"$1"; do mv "$link" "${link%/*}/K01$1"; done
"""
FAKE_ID = """#!/bin/bash
cat "$FAKE/id"
"""
FAKE_SUDO = """#!/bin/bash
printf 'sudo %s\\n' "$*" >>"$FAKE/calls"
exec "$@"
"""
# How packages enable a unit, which has another name too, one that starts at a login, and a script of /etc/init.d.
ENABLES = """
cd "$DPKG_ROOT/etc"
mkdir -p systemd/system/multi-user.target.wants systemd/user/sockets.target.wants rc2.d
ln -s /lib/systemd/system/ssh.service systemd/system/multi-user.target.wants/ssh.service
ln -s /lib/systemd/system/ssh.service systemd/system/sshd.service
ln -s /usr/lib/systemd/user/agent.socket systemd/user/sockets.target.wants/agent.socket
ln -s ../init.d/exim4 rc2.d/S01exim4
"""
ASKS_WHETHER_TO_START = """
"$DPKG_ROOT/usr/sbin/policy-rc.d"
echo "policy $?" >>"$FAKE/calls"
"""


class System:
    """A root directory with a release and two services, and a copy of the scripts."""

    def __init__(self, release="12", user="0"):
        self.holder = tempfile.TemporaryDirectory(prefix="dtrain setup ")  # a path with blanks
        self.path = pathlib.Path(self.holder.name)
        shutil.copytree(SCRIPTS, self.path / "scripts", symlinks=True)
        for name, text in (("dpkg-query", FAKE_DPKG_QUERY), ("apt-get", FAKE_APT_GET), ("update-rc.d", FAKE_UPDATE_RC),
                           ("id", FAKE_ID), ("sudo", FAKE_SUDO)):
            self.program(f"bin/{name}", text)
        self.write("fake/id", user)
        self.write("fake/installed", "g++\nccache\n")
        self.write("fake/postinst", ENABLES + ASKS_WHETHER_TO_START)
        self.write("fake/calls", "")
        self.root = self.path / "root"
        self.write("root/usr/sbin/ssh", "")
        self.write("root/etc/os-release", f'ID=debian\nVERSION_ID="{release}"\nPRETTY_NAME="Debian GNU/Linux {release} (x)"\n')
        self.write("root/etc/systemd/system/timers.target.wants/apt-daily.timer", "").unlink()
        (self.root / "etc/systemd/system/timers.target.wants/apt-daily.timer").symlink_to("/lib/systemd/system/apt-daily.timer")
        self.write("root/etc/rc2.d/S01cron", "")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.holder.cleanup()

    def write(self, name, text):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def program(self, name, text):
        self.write(name, text).chmod(0o755)

    def run(self, *command, **environment):
        ended = subprocess.run([str(word) for word in command], cwd=self.path, capture_output=True, text=True, check=False,
                               stdin=subprocess.DEVNULL,
                               env={"HOME": str(self.path), "FAKE": str(self.path / "fake"), "DPKG_ROOT": str(self.root),
                                    "PATH": f"{self.path}/bin:{os.environ['PATH']}", **environment})
        self.said = ended.stdout + ended.stderr
        return ended.returncode

    def calls(self):
        return (self.path / "fake/calls").read_text().splitlines()

    def links(self):
        """What starts at boot or at a login."""
        etc = self.root / "etc"
        return sorted(str(path.relative_to(etc)) for path in etc.rglob("*")
                      if (path.is_symlink() or "rc2.d" in str(path)) and not path.name.startswith("K") and not path.is_dir())


AS_BEFORE = ["rc2.d/S01cron", "systemd/system/timers.target.wants/apt-daily.timer"]


def test_what_is_installed_is_said_before():
    with System() as system:
        assert system.run("scripts/setup") == 0, system.said
        lines = system.said.splitlines()
        assert lines[0].startswith("== setup: missing packages: meson ninja-build"), lines
        assert "catch2" in lines[0] and " g++ " not in lines[0] and "clang" not in lines[0], lines
        assert lines[1].endswith(" packages and what they need, together 7: 34.7 MB/35.1 MB to download, 1,202 MB on disk"), lines
        update, asked, installed = [call for call in system.calls() if call.startswith("apt-get")]
        assert update == "apt-get update" and installed == asked.replace("--assume-no", "--assume-yes")
        assert "--no-install-recommends" in installed and "slurm-wlm" in installed
        assert system.run("scripts/setup") == 0 and "packages are installed" in system.said, system.said


def test_no_service_is_started_or_enabled():
    with System() as system:
        assert system.links() == AS_BEFORE
        assert system.run("scripts/setup") == 0, system.said
        assert "policy 101" in system.calls(), system.calls()
        assert not (system.root / "usr/sbin/policy-rc.d").exists()
        assert system.links() == AS_BEFORE, system.links()
        assert "== setup: not enabled at boot: agent.socket exim4 ssh.service sshd.service" in system.said, system.said


def test_a_policy_that_is_there_is_kept():
    with System() as system:
        system.program("root/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 104\n")
        assert system.run("scripts/setup") == 0, system.said
        assert "policy 104" in system.calls(), system.calls()
        assert (system.root / "usr/sbin/policy-rc.d").read_text().endswith("exit 104\n")


def test_an_installation_that_fails_or_is_interrupted_leaves_nothing_enabled():
    for end in ("exit 100", "kill -INT $PPID", "kill -TERM $PPID"):
        with System() as system:
            system.write("fake/postinst", ENABLES + f"echo E: broken\n{end}\n")
            assert system.run("scripts/setup") == 1, system.said
            assert not (system.root / "usr/sbin/policy-rc.d").exists()
            assert system.links() == AS_BEFORE, system.links()
            assert "As root, run: apt-get update && apt-get install --no-install-recommends meson " in system.said, system.said
            assert end != "exit 100" or "E: broken" in system.said, system.said


def test_an_ordinary_user_needs_sudo():
    with System(user="1000") as system:
        assert system.run("scripts/setup", "--build") == 0, system.said
        assert system.calls()[0].startswith("sudo scripts/dev/install-packages meson "), system.calls()
        (system.path / "bin/sudo").unlink()
        system.write("fake/installed", "g++\n")
        system.write("fake/calls", "")
        # Without the directories in which the real one may be.
        for tool in ("bash", "env", "dirname", "grep", "cat", "sed"):
            (system.path / "bin" / tool).symlink_to(shutil.which(tool))
        assert system.run("scripts/setup", "--build", PATH=f"{system.path}/bin") == 1
        assert system.calls() == [] and "Ask an administrator to run: apt-get update && apt-get install --no-install-recommends meson " in system.said, system.said


def test_each_set_has_its_packages():
    with System() as system:
        def missing(*words):
            assert system.run("scripts/setup", "--check", *words) == 1
            assert system.calls() == []
            return set(system.said.partition("missing packages: ")[2].split())

        build, tests = missing("--build"), missing("--test")
        assert "libdnnl-dev" in build and not build & {"catch2", "slurm-wlm", "openssh-server", "clang"}, build
        assert tests == missing() and build < tests and "slurm-wlm" in tests
        assert missing("--style") - tests >= {"clang-format", "shellcheck"}
        assert missing("--fuzz") - tests == {"clang-14", "libclang-rt-14-dev"}
        assert missing("--style", "--fuzz") == missing("--style") | missing("--fuzz")
        assert "prometheus" in missing("--dev")
        system.write("fake/installed", "\n".join(tests | {"g++", "ccache"}))
        assert system.run("scripts/setup", "--check") == 0
        assert system.run("scripts/setup", "--biuld") == 1 and "usage:" in system.said


def test_releases():
    with System("13") as system:
        assert system.run("scripts/setup") == 0 and "the names of the packages" not in system.said, system.said
        for word in ("--style", "--fuzz"):
            assert system.run("scripts/setup", word) == 1
            assert f"the packages of {word} are for Debian 12, but this is Debian GNU/Linux 13 (x)" in system.said
    for text, release in (("ID=debian\nVERSION_ID=11\nPRETTY_NAME=Old\n", "12"), ("ID=debian\nPRETTY_NAME=Old\n", "13"),
                          ('ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME=Old\n', "13")):
        with System() as system:
            system.write("root/etc/os-release", text)
            assert system.run("scripts/setup") == 0
            assert f"this is Old; the names of the packages are those of Debian {release}" in system.said, system.said


def test_the_quickstart_needs_no_packages_of_tests():
    with System() as system:
        system.program("scripts/setup", '#!/bin/bash\necho "setup $*" >>"$FAKE/calls"\n')
        system.program("bin/meson", '#!/bin/bash\necho "meson $*" >>"$FAKE/calls"\nmkdir -p build/cmd\ntouch build/build.ninja\n')
        system.program("bin/ninja", '#!/bin/bash\nmkdir -p build/cmd; cp "$FAKE/dtrain" build/cmd/dtrain\necho "2/2 done"\n')
        summary = '{"validation_accuracy": 0.9, "epochs": 5, "samples_per_s": 100}'
        system.program("fake/dtrain", f"#!/bin/bash\nmkdir -p build/quickstart-run\necho '{summary}' >build/quickstart-run/summary.json\n")
        assert system.run("scripts/quickstart") == 0, system.said
        assert system.calls() == ["setup --build", "meson setup build -Dtests=false"], system.calls()
        assert "a full build takes about" in system.said and "validation accuracy 0.900" in system.said, system.said
        # A build that has tests keeps them.
        assert system.run("scripts/quickstart") == 0, system.said
        assert system.calls()[2:] == ["setup --build"], system.calls()


def main():
    failed = 0
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    for name, test in tests:
        try:
            test()
        except Exception as error:  # whatever it is, the other tests run
            failed += 1
            line = error.__traceback__.tb_next and error.__traceback__.tb_next.tb_lineno
            print(f"FAILED {name}, line {line}: {type(error).__name__}: {error}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
