package worker_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRUN1_STEP8_WrongTypesAndDurableCallsFromStepsDoNotCompile proves that the compiler rejects
// each marked line of testdata/wrong and no other. The lines contain wrong types at a start,
// durable operations in steps, and I/O in workflow code.
func TestRUN1_STEP8_WrongTypesAndDurableCallsFromStepsDoNotCompile(t *testing.T) {
	source, err := os.ReadFile("testdata/wrong/wrong.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []int
	for i, line := range strings.Split(string(source), "\n") {
		if strings.Contains(line, "// want: ") {
			want = append(want, i+1)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-e", "./testdata/wrong").CombinedOutput()
	if err == nil {
		t.Fatal("it compiles")
	}
	var got []int
	for _, m := range regexp.MustCompile(`wrong\.go:(\d+):`).FindAllStringSubmatch(string(out), -1) {
		line, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" || len(want) == 0 {
		t.Errorf("lines with errors (-want +got):\n%s\n%s", diff, out)
	}
}
