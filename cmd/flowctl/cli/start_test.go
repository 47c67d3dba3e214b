package cli_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The test proves that initializing the packages of this command is cheap. Programs of users import
// these packages as well and pay for their initialization. For example, compressing the scripts of
// the Redis store takes 8 ms and 8 MB of garbage, and the files of the console take 7 ms and 3 MB.
func TestStart_PreparesNothingThatIsNeededLaterOnly(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^init (github\.com/flowgen/flowgen/\S+) .* clock, (\d+) bytes`).FindAllStringSubmatch(string(out), -1) {
		found[strings.TrimPrefix(m[1], "github.com/flowgen/flowgen/")] = true
		if n, err := strconv.Atoi(m[2]); err != nil || n > 200_000 {
			t.Errorf("package %s allocates %s bytes before main begins, want at most 200,000", m[1], m[2])
		}
	}
	for _, name := range []string{"redisstore", "sqlitestore", "runtime/workflow"} {
		if !found[name] {
			t.Errorf("nothing is known of package %s:\n%s", name, out)
		}
	}
}
