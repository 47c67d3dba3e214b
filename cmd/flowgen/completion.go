package main

import (
	"fmt"
	"io"
)

// completion prints the completion script for the shell in args.
func completion(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 {
		if script, ok := scripts[args[0]]; ok {
			fmt.Fprint(stdout, script)
			return exitOK
		}
	}
	fmt.Fprint(stderr, "flowgen: completion requires the name of a shell: bash, zsh or fish\n"+usage)
	return exitUsage
}

var scripts = map[string]string{
	"bash": `# bash completion for flowgen: source <(flowgen completion bash)
_flowgen() {
	local word=${COMP_WORDS[COMP_CWORD]}
	if [[ ${COMP_WORDS[1]} == completion && $COMP_CWORD -eq 2 ]]; then
		COMPREPLY=($(compgen -W "bash zsh fish" -- "$word"))
	elif [[ ${COMP_WORDS[COMP_CWORD-1]} == -client ]]; then
		COMPREPLY=($(compgen -d -- "$word"))
	elif [[ $word == -* ]]; then
		COMPREPLY=($(compgen -W "-check -since -manifest -client -json -version -help" -- "$word"))
	elif [[ $COMP_CWORD -eq 1 ]]; then
		COMPREPLY=($(compgen -W "vet breaking manifest replay types completion help ./..." -- "$word") $(compgen -d -- "$word"))
	else
		COMPREPLY=($(compgen -W "./..." -- "$word") $(compgen -d -- "$word"))
	fi
}
complete -F _flowgen flowgen
`,
	"zsh": `#compdef flowgen
# zsh completion for flowgen: source <(flowgen completion zsh)
_flowgen() {
	if [[ $words[2] == completion ]]; then
		compadd bash zsh fish
		return
	fi
	_arguments \
		'-check[write nothing; fail if a file is missing or stale]' \
		'-since=[compare stored names with a revision]:revision:' \
		'-manifest[also write the manifest of what runs depend on]' \
		'-client=[also write a client package to a directory]:directory:_files -/' \
		'-json[print the report as JSON]' \
		'-version[print the version]' \
		'-help[print help]' \
		'*:package:{ compadd vet breaking manifest replay types completion help ./...; _files -/ }'
}
compdef _flowgen flowgen
`,
	"fish": `# fish completion for flowgen: flowgen completion fish | source
complete -c flowgen -f
complete -c flowgen -o check -d 'write nothing; fail if a file is missing or stale'
complete -c flowgen -o since -x -d 'compare stored names with a revision'
complete -c flowgen -o manifest -d 'also write the manifest of what runs depend on'
complete -c flowgen -o client -x -a '(__fish_complete_directories)' -d 'also write a client package to a directory'
complete -c flowgen -o json -d 'print the report as JSON'
complete -c flowgen -o version -d 'print the version'
complete -c flowgen -o help -d 'print help'
complete -c flowgen -n '__fish_use_subcommand' -a 'vet breaking manifest replay types completion help ./...'
complete -c flowgen -n '__fish_use_subcommand' -a '(__fish_complete_directories)'
complete -c flowgen -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'
`,
}
