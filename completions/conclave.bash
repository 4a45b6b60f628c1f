# bash completion for conclave(1)
#
# Commands and options are listed here (a test compares them with the program); the program itself
# is asked for the names of protocols, experiments and elections, so that a new one needs no change.

# Asks the program of the command line, which may not be the installed one.
_conclave_ask()
{
    local program=${COMP_WORDS[0]/#\~/$HOME}
    "$program" "$@" </dev/null 2>/dev/null
}

_conclave_protocols()
{
    # In the objects of protocols a summary follows the name, in those of options it does not.
    _conclave_ask protocols --json | grep -o '"name": "[^"]*", "summary"' | cut -d '"' -f 4
}

_conclave_experiments()
{
    _conclave_ask lab | cut -d ' ' -f 1
}

# Elections in the file that is named on the line, or in the user's own. Servers are not asked,
# because completion should not wait for them.
_conclave_elections()
{
    local i via=()
    for ((i = 2; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == --via ]] && via=(--via "$(_conclave_address $((i + 1)))")
    done
    [[ ${#via[@]} -gt 0 && ${via[1]} != sqlite:* ]] && return
    _conclave_ask status --json "${via[@]}" | sed -n 's/^{"election": "\([^" \\]*\)".*/\1/p'
}

# The address that begins at a word: bash divides it at colons and equals signs.
_conclave_address()
{
    local i text="" next rest=$COMP_LINE
    for ((i = 0; i <= COMP_CWORD; i++)); do
        next=${COMP_WORDS[i]}
        [[ $i -gt $1 && $rest == [[:space:]]* ]] && break
        rest=${rest#"${rest%%[![:space:]]*}"}
        rest=${rest#"$next"}
        [[ $i -ge $1 ]] && text+=$next
    done
    printf '%s\n' "$text"
}

# The position of the command of `run`: after "--", or after the name; 0: not yet.
_conclave_command()
{
    local i name=""
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --) echo $((i + 1)) && return ;;
        --via | --lease | --grace | --cleanup | --cleanup-time | --wait | --timeout | --conflict-exit-code | --on-elected | \
            --on-lost | --fifo | --node | -w | -E)
            ((i++))
            while [[ ${COMP_WORDS[i + 1]} == [:=]* || ${COMP_WORDS[i]} == *[:=] ]]; do
                ((i++))
            done
            ;;
        -*) ;;
        *)
            [[ -n $name ]] && echo "$i" && return
            name=${COMP_WORDS[i]}
            ;;
        esac
    done
    [[ -n $name && $i -eq $COMP_CWORD && ${COMP_WORDS[i]} != -* ]] && echo "$i" && return
    echo 0
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
    local verbs="run elect watch status resign history check-lease explain doctor forget stores store
        protocols oracles sequencer members report keygen sim explore lab play"
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

    # The words after the command of `run` belong to the command.
    if [[ $verb == run ]]; then
        i=$(_conclave_command)
        if [[ $i -gt 0 ]]; then
            if declare -F _command_offset >/dev/null; then
                _command_offset "$i"
            elif [[ $i -eq $COMP_CWORD ]]; then
                mapfile -t COMPREPLY < <(compgen -c -- "$cur")
            else
                compopt -o filenames 2>/dev/null
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            fi
            return
        fi
    fi

    case $prev in
    --seed | --runs | --threads | --random | --count | --clients | --changes | --history | --request-rate | --capacity | --load | -E | --conflict-exit-code)
        return # a number
        ;;
    --lease | --grace | --cleanup-time | --wait | --timeout | -w | --min | --at | --since) return ;;   # a time
    --node | --to) return ;;                                                          # a name
    --on-elected | --on-lost)
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
        return
        ;;
    --via)
        [[ $verb == elect || $verb == watch ]] && words="multicast:"
        [[ $verb == elect || $verb == run || $verb == watch || $verb == status || $verb == resign || $verb == report ]] && words+=" peers:"
        compopt -o nospace 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -W "$words sqlite: postgres:// etcd:// zookeeper://" -- "$cur")
        return
        ;;
    --live)
        mapfile -t COMPREPLY < <(compgen -W "snmp: file:" -- "$cur")
        return
        ;;
    --plots)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    --trace | --fifo)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    esac

    case $verb in
    "")
        words="$verbs help"
        [[ $cur == -* ]] && words="--help --version"
        ;;
    help) words=$verbs ;;
    run)
        if [[ $cur == -* ]]; then
            words=$(_conclave_options "--via --lease --grace --cleanup --cleanup-time --nonblock --wait --timeout
                --conflict-exit-code --once --init --on-elected --on-lost --fifo --node
                --keep-secrets --verbose --check --every --offset --zone --tolerance --retry
                --at-most-once --help")
        else
            words=$(_conclave_elections)
        fi
        ;;
    elect) words=$(_conclave_options "--via --lease --node --changes --json --trace --help") ;;
    doctor) words=$(_conclave_options "--via --lease --json --help") ;;
    watch | status | resign | history | forget)
        if [[ $cur == -* ]]; then
            case $verb in
            watch) words="--via --lease --changes --json --help" ;;
            status) words="--via --json --help" ;;
            resign) words="--to --wait --via --help" ;;
            history) words="--at --since --via --node --json --help" ;;
            forget) words="--via --help" ;;
            esac
            words=$(_conclave_options "$words")
        else
            words=$(_conclave_elections)
        fi
        ;;
    check-lease) words=$(_conclave_options "--min --json --quiet --help") ;;
    explain)
        if [[ $cur == -* ]]; then
            words=$(_conclave_options "--lease --grace --cleanup-time --json --help")
        else
            compopt -o nospace 2>/dev/null
            words="sqlite: postgres:// etcd:// zookeeper://"
        fi
        ;;
    stores) words=$(_conclave_options "--json --help") ;;
    store)
        if [[ $cur == -* ]]; then
            words="--via --help"
        elif [[ $prev == store ]]; then
            words="init"
        else
            compopt -o nospace 2>/dev/null
            words="sqlite: postgres:// etcd:// zookeeper://"
        fi
        ;;
    oracles) words=$(_conclave_options "--json --help") ;;
    sequencer)
        if [[ $cur == -* ]]; then
            words=$(_conclave_options "--count --clients --list --json --help")
        else
            words="snmp: file:"
        fi
        ;;
    members)
        if [[ $cur == -* ]]; then
            words=$(_conclave_options "--check --json --help")
        else
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return
        fi
        ;;
    report)
        words=$(_conclave_options "--via --node --site --history --request-rate --capacity --load --help")
        ;;
    keygen)
        if [[ $cur == -* ]]; then
            words="--rotate --help"
        else
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return
        fi
        ;;
    sim)
        if [[ $cur == -* ]]; then
            words=$(_conclave_options "--seed --runs --threads --json --timing --trace --timeline
                --shrink --swarm --quiet --help")
        else
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(
                compgen -f -X '!*.scn' -- "$cur"
                compgen -d -- "$cur"
            )
            return
        fi
        ;;
    explore)
        if [[ $prev == --property ]]; then
            words="validity agreement termination at-most-one-leader token-monotonic leader-order
                stability communication-efficient support-one leader-self-support
                partitions-disjoint rightful-leader assertions"
        elif [[ $cur == -* ]]; then
            words=$(_conclave_options "--nodes --budget --property --settle --drift --option --delay
                --horizon --states --time --memory --threads --bitstate --resume --scenario --trace --json --help")
        else
            words=$(_conclave_protocols)
        fi
        ;;
    protocols)
        if [[ $cur == -* ]]; then
            words=$(_conclave_options "--json --help")
        else
            words=$(_conclave_protocols)
        fi
        ;;
    play)
        if [[ $cur == -* ]]; then
            words=$(_conclave_options "--port --help")
        else
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return
        fi
        ;;
    lab)
        if [[ $cur == -* ]]; then
            words=$(_conclave_options "--plots --runs --random --seed --live --json --tiny --help")
        elif [[ $prev == lab ]]; then
            words=$(_conclave_experiments)
        fi
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -F _conclave conclave
