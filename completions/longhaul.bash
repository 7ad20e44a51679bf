# SPDX-License-Identifier: Apache-2.0
# Completion of the command longhaul in bash: verbs, options, files, and ids of experiments.

# Prints the experiments' ids, or with --suites the suites' names, as `longhaul list` has them.
_longhaul_listed() {
	"$1" list 2>/dev/null | awk -v suites="${2:-}" '
		/^Suite / { in_suite = 1; if (suites != "") { sub(/:$/, "", $2); print $2 }; next }
		in_suite && /^  / && suites == "" { print $1 }'
}

# Prints the names of the models, as `longhaul train --list` has them.
_longhaul_models() {
	"$1" train --list 2>/dev/null | awk '$3 ~ /^[0-9]+$/ || $4 ~ /^[0-9]+$/ { print $1 }'
}

_longhaul_add_words() {
	mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$1" -- "$cur")
}

_longhaul_add_files() {
	compopt -o filenames 2>/dev/null
	mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen "$@" -- "$cur")
}

# Scenario files are YAML; folders lead to them.
_longhaul_add_scenarios() {
	_longhaul_add_files -f -X '!*.@(yaml|yml)'
	_longhaul_add_files -d
}

_longhaul_value_of_option() {
	case $1 in
	--backend) _longhaul_add_words 'auto host guest' ;;
	--nodes) _longhaul_add_words 'guest host' ;;
	--clock) _longhaul_add_words 'virtual real' ;;
	--probe) _longhaul_add_words 'short full' ;;
	--assume) _longhaul_add_words 'window link' ;;
	--continent) _longhaul_add_words 'africa asia europe north-america oceania south-america' ;;
	--data)
		_longhaul_add_words 'mnist: cifar10: webdataset: text: ctr: speech: synthetic-images synthetic-text
			synthetic-ctr synthetic-speech'
		;;
	--optimizer) _longhaul_add_words 'sgd adamw lamb lars' ;;
	--schedule) _longhaul_add_words 'constant cosine linear polynomial' ;;
	--device) _longhaul_add_words 'cpu cuda reference' ;;
	--precision) _longhaul_add_words 'fp32 fp16 bf16' ;;
	--sites | --vocabulary) _longhaul_add_files -f ;;
	--checkpoint) _longhaul_add_files -d ;;
	-o) _longhaul_add_files -f ;;
	--lr | --momentum | --weight-decay | --clip-norm | --warm-up | --batch | --micro-batch | --epochs | --steps) ;;
	--samples | --evaluate | --checkpoint-every | --log-every | --threads | --seconds) ;;
	--out) _longhaul_add_files -d ;;
	--about | --bandwidth | --duration | --from | --mtu | --name | --provider | --site | --streams | --to | --unit) ;;
	--capture) _longhaul_add_words 'all' ;;
	--set | --seed | --interval | --repeat | --node | --time-limit | --stuck-after | --sample) ;;
	*) return 1 ;;
	esac
}

_longhaul_argument() {
	case $1 in
	run)
		_longhaul_add_words "$(_longhaul_listed "${COMP_WORDS[0]}")"
		_longhaul_add_scenarios
		;;
	import | capture) _longhaul_add_files -f ;;
	exec | shell | verify) _longhaul_add_scenarios ;;
	train | profile) _longhaul_add_words "$(_longhaul_models "${COMP_WORDS[0]}")" ;;
	rerun | plot) _longhaul_add_files -d ;;
	reproduce)
		_longhaul_add_words "$(_longhaul_listed "${COMP_WORDS[0]}" --suites)"
		_longhaul_add_words "$(_longhaul_listed "${COMP_WORDS[0]}")"
		;;
	esac
}

_longhaul() {
	local cur=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local verb=${COMP_WORDS[1]-} run_options='--out --set --seed --repeat --dry-run --json
		--backend --clock --nodes --charge-cpu --probe --coarse --capture --quiet --no-figures --help'

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		_longhaul_add_words 'run exec shell rerun verify train profile list plot capture reproduce import doctor schema --help --version'
		return
	fi
	_longhaul_value_of_option "$previous" && return
	if [[ $cur != -* ]]; then
		_longhaul_argument "$verb"
		return
	fi
	case $verb in
	run) _longhaul_add_words "$run_options" ;;
	exec)
		_longhaul_add_words '--node --all --out --set --seed --backend --clock --nodes --charge-cpu --no-probe --capture
			--time-limit --stuck-after --keep-going --help'
		;;
	train)
		_longhaul_add_words '--list --data --vocabulary --set --optimizer --lr --momentum --weight-decay --clip-norm
			--schedule --warm-up --batch --micro-batch --epochs --steps --samples --evaluate --augment --checkpoint
			--checkpoint-every --resume --device --precision --threads --portable --seed --log-every --out --json
			--quiet --no-figures --help'
		;;
	profile)
		_longhaul_add_words '--batch --seconds --name --out --data --vocabulary --set --optimizer --device --precision
			--threads --portable --seed --json --quiet --help'
		;;
	shell) _longhaul_add_words '--clock --backend --nodes --set --seed --help' ;;
	rerun) _longhaul_add_words '--out --dry-run --json --quiet --no-figures --help' ;;
	import)
		_longhaul_add_words '--site --from --to --unit --streams --duration --sites --provider --continent
			--name --about --mtu --assume --bandwidth --jitter --out --help'
		;;
	verify)
		_longhaul_add_words '--out --sample --set --seed --clock --backend --nodes --json --quiet
			--no-figures --help'
		;;
	capture) _longhaul_add_words '--out --interval --no-figures --help' ;;
	reproduce) _longhaul_add_words '--out --json --all --coarse --help' ;;
	*) _longhaul_add_words '--help' ;;
	esac
}

shopt -s extglob
complete -F _longhaul longhaul
