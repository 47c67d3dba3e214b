package environ

import (
	"regexp"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/spelling"
)

// prefix is the common prefix of the variables.
const prefix = "FLOWGEN_"

// fileSuffix is the suffix of the variables that contain the path of a file with a secret.
const fileSuffix = "_FILE"

// Names returns the names of the variables of all programs, without those that end with _FILE.
func Names() []string { return append(slices.Clone(plain), secret...) }

var plain = []string{
	"FLOWGEN_CLIENT_MAX_PAYLOAD",
	"FLOWGEN_CLIENT_WARN_PAYLOAD",
	"FLOWGEN_CODEC_BLOBS",
	"FLOWGEN_CODEC_ENDPOINT",
	"FLOWGEN_JOURNAL_FOR",
	"FLOWGEN_JOURNAL_MOST",
	"FLOWGEN_WORKER_AT_ONCE",
	"FLOWGEN_WORKER_BLOCKED_AFTER",
	"FLOWGEN_WORKER_BUILD",
	"FLOWGEN_WORKER_CAPACITY",
	"FLOWGEN_WORKER_CLAIM_EXPIRY",
	"FLOWGEN_WORKER_CONCURRENCY",
	"FLOWGEN_WORKER_GRACE",
	"FLOWGEN_WORKER_HEARTBEAT",
	"FLOWGEN_WORKER_MAX_LOG_BYTES",
	"FLOWGEN_WORKER_MAX_LOG_EVENTS",
	"FLOWGEN_WORKER_NAME",
	"FLOWGEN_WORKER_NO_LOCAL_START",
	"FLOWGEN_WORKER_PARKED",
	"FLOWGEN_WORKER_PIN",
	"FLOWGEN_WORKER_QUEUES",
	"FLOWGEN_WORKER_RECOVERIES",
	"FLOWGEN_WORKER_RUNS",
	"FLOWGEN_WORKER_RUN_BUDGET",
}

var secret = []string{
	"FLOWGEN_CODEC_KEYS",
	"FLOWGEN_SERVER",
	"FLOWGEN_STORE",
	"FLOWGEN_STORE_PASSWORD",
	"FLOWGEN_TOKEN",
}

// known returns the names of all variables that may be set.
func known() []string {
	all := Names()
	for _, name := range secret {
		all = append(all, name+fileSuffix)
	}
	return all
}

// unknown returns an UnknownError for each variable in vars that begins with FLOWGEN_ but is
// neither known nor set by an orchestrator, sorted by name.
func unknown(vars map[string]string) []error {
	all := known()
	var wrong []string
	for name, value := range vars {
		if strings.HasPrefix(name, prefix) && !slices.Contains(all, name) && !serviceLink(name, value) {
			wrong = append(wrong, name)
		}
	}
	slices.Sort(wrong)
	errs := make([]error, len(wrong))
	for i, name := range wrong {
		errs[i] = &UnknownError{Name: name, Nearest: nearest(name, all)}
	}
	return errs
}

// links matches the variables that Kubernetes sets in every container for a Service whose name is
// flowgen or begins with flowgen-, such as FLOWGEN_SERVICE_HOST, FLOWGEN_SERVICE_PORT_HTTP and
// FLOWGEN_WORKER_PORT_80_TCP_ADDR. FLOWGEN_PORT is one of them only if its value is a URL.
var links = regexp.MustCompile(`^FLOWGEN(_[A-Z0-9_]+)?_(SERVICE_HOST=|SERVICE_PORT(_[A-Z0-9_]+)?=|PORT=[a-z]+://|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=)`)

// serviceLink reports whether a variable is one that Kubernetes sets for a Service.
func serviceLink(name, value string) bool { return links.MatchString(name + "=" + value) }

// nearest returns the known name that a misspelled name was probably meant to be, or "". It also
// finds the name of which the first words are missing, as in FLOWGEN_CONCURRENCY.
func nearest(name string, all []string) string {
	word := strings.TrimPrefix(name, prefix)
	var words, ends []string
	for _, n := range all {
		n = strings.TrimPrefix(n, prefix)
		words = append(words, n)
		if word != "" && strings.HasSuffix(n, "_"+word) {
			ends = append(ends, n)
		}
	}
	near := spelling.Nearest(word, words)
	if near == "" && len(ends) == 1 {
		near = ends[0]
	}
	if near == "" {
		return ""
	}
	return prefix + near
}
