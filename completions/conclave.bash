# bash completion for conclave(1)
#
# Commands and options are listed here; names of protocols and experiments are asked of the program
# itself, so that a new one needs no change.

# Asks the program that stands on the command line: it may not be the installed one.
_conclave_ask()
{
    local program=${COMP_WORDS[0]/#\~/$HOME}
    "$program" "$@" </dev/null 2>/dev/null
}

_conclave_protocols()
{
    # The objects of protocols go on with a summary, those of options do not.
    _conclave_ask protocols --json | grep -o '"name": "[^"]*", "summary"' | cut -d '"' -f 4
}

_conclave_experiments()
{
    _conclave_ask lab | cut -d ' ' -f 1
}

# The options in $1 that are not on the line yet.
_conclave_options()
{
    local option word
    for option in $1; do
        for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
            [[ $word == "$option" ]] && continue 2
        done
        printf '%s\n' "$option"
    done
}

_conclave()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local verb="" words="" i
    COMPREPLY=()

    # --option=value is three words for bash.
    if [[ $cur == "=" ]]; then
        cur=""
    elif [[ $prev == "=" ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi

    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} != -* ]]; then
            verb=${COMP_WORDS[i]}
            break
        fi
    done

    case $prev in
    --seed | --runs | --threads | --random | --min | --count | --clients | --changes) return ;; # a number
    --live)
        mapfile -t COMPREPLY < <(compgen -W "snmp: file:" -- "$cur")
        return
        ;;
    --plots)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    --trace)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    esac

    case $verb in
    "")
        words="elect check-lease protocols oracles sequencer keygen sim lab help"
        [[ $cur == -* ]] && words="--help --version"
        ;;
    help) words="elect check-lease protocols oracles sequencer keygen sim lab" ;;
    check-lease) words=$(_conclave_options "--min --json --quiet --help") ;;
    elect) words=$(_conclave_options "--via --lease --node --changes --json --help") ;;
    oracles) words=$(_conclave_options "--json --help") ;;
    sequencer)
        if [[ $cur == -* ]]; then
            words=$(_conclave_options "--count --clients --list --json --help")
        else
            words="snmp: file:"
        fi
        ;;
    keygen)
        if [[ $cur == -* ]]; then
            words="--help"
        else
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return
        fi
        ;;
    sim)
        if [[ $cur == -* ]]; then
            words=$(_conclave_options "--seed --runs --threads --json --timing --trace --timeline
                --shrink --quiet --help")
        else
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(
                compgen -f -X '!*.scn' -- "$cur"
                compgen -d -- "$cur"
            )
            return
        fi
        ;;
    protocols)
        if [[ $cur == -* ]]; then
            words=$(_conclave_options "--json --help")
        else
            words=$(_conclave_protocols)
        fi
        ;;
    lab)
        if [[ $cur == -* ]]; then
            words=$(_conclave_options "--plots --runs --random --live --json --tiny --help")
        elif [[ $prev == lab ]]; then
            words=$(_conclave_experiments)
        fi
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -F _conclave conclave
