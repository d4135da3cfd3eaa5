# Sourced by the scripts beside this folder: where things are, how to print messages, and the cheap checks for whether
# scripts/setup has anything to do. Sets variables and functions only. Messages go to stderr: stdout carries data.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
venv=$root/.venv
binaries=$root/target/release
# The programs. The third serves `opcollect tpu`: only that needs it, so only that builds it.
all_programs=(opcollect oppredict opcollect-tpu)

# Of a program: its time is that of the start of the last build that succeeded; it holds the folder of the libraries that
# the program was linked to.
built_stamp() { echo "$binaries/.opbench-built-$1"; }

# The binaries look for .venv above themselves, so they must stay inside the checkout.
export CARGO_TARGET_DIR=$root/target

# Where rustup puts it, for shells that have not read a profile since.
command -v cargo >/dev/null || export PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin

say() { printf '%s\n' "$*" >&2; }

die() {
    printf 'error: %s\n' "$1" >&2
    shift
    if [ $# -gt 0 ]; then printf '       %s\n' "$@" >&2; fi
    exit 1
}

# The requirement files of an environment: `base` for the main job, `dev` for tests and benchmarks too.
requirement_files() {
    echo "$root/scripts/requirements.txt"
    if [ "$1" = dev ]; then echo "$root/scripts/requirements-dev.txt"; fi
}

# The extras of `scripts/setup --with NAME`, and `xgboost`, the library that both programs open: each lies in .venv/NAME, apart
# from the Python packages, as its file of requirements says.
extra_folder() { echo "$venv/$1"; }

extra_requirements() { echo "$root/scripts/requirements-$1.txt"; }

# The program that runs models in libtorch is built only with the extra.
torch_program=$(extra_folder torch)/bin/optorch

torch_program_is_ready() {
    [ -x "$torch_program" ] && [ -z "$(cd "$root" && find Cargo.lock libtorch -newer "$torch_program" -print -quit)" ]
}

extra_stamp() { sha256sum <"$(extra_requirements "$1")"; }

extra_is_ready() { [ "$(cat "$(extra_folder "$1")/.opbench" 2>/dev/null)" = "$(extra_stamp "$1")" ]; }

# What the stamp of a finished environment says: the files' hash, and the folder, because scripts in a virtual
# environment hold its path and a moved one is broken.
python_stamp() {
    local files
    mapfile -t files < <(requirement_files "$1")
    printf '%s %s\n' "$(cat "${files[@]}" | sha256sum)" "$root"
}

python_is_ready() {
    [ -x "$venv/bin/python" ] && [ "$(cat "$venv/.opbench-$1" 2>/dev/null)" = "$(python_stamp "$1")" ]
}

# A program is no younger than its sources. Folders count too: their times change when a file goes away. The Python importer
# and the model zoo are read at run time and are no reason to build.
program_is_ready() {
    local stamp
    stamp=$(built_stamp "$1")
    [ -x "$binaries/$1" ] && [ "$stamp" -nt "$venv/.opbench-base" ] || return 1
    [ -z "$(cd "$root" && find Cargo.toml Cargo.lock ./*/Cargo.toml ./*/build.rs ./*/src \
        -newer "$stamp" -print -quit 2>/dev/null)" ] || return 1
    extra_is_ready xgboost
}

programs_are_ready() {
    local program
    for program; do program_is_ready "$program" || return 1; done
}

# The tools of the environment go first. Every build must see the same PATH: the build script of tvm-bridge depends on it.
enter_environment() {
    case :$PATH: in :"$venv/bin":*) ;; *) export PATH=$venv/bin:$PATH ;; esac
}

# ensure_set_up KIND PROGRAM…: sets up what is missing of an environment and of some programs; costs milliseconds when
# nothing is.
ensure_set_up() {
    local kind=$1
    shift
    if ! { python_is_ready "$kind" && programs_are_ready "$@"; }; then
        "$root/scripts/setup" "$kind" "${@/#/--program=}" >&2 || exit 1
    fi
}
