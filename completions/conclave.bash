# bash completion for conclave(1)

_conclave()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local verb="" i words=""
    COMPREPLY=()

    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} != -* ]]; then
            verb=${COMP_WORDS[i]}
            break
        fi
    done

    case $prev in
    --seed | --runs | --threads) return ;; # a number: nothing to suggest
    --trace)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    esac

    case $verb in
    "") words="sim protocols lab --help --version" ;;
    sim)
        words="--seed --runs --threads --json --timing --trace --timeline --shrink --quiet --help"
        if [[ $cur != -* ]]; then
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -X '!*.scn' -- "$cur"; compgen -d -- "$cur")
            return
        fi
        ;;
    protocols) words="--json --help" ;;
    lab) words="classic --help" ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -F _conclave conclave
