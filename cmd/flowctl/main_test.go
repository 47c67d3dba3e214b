package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/sqlitestore"
)

func TestRun_AnswersWithAnExitCode(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "orders.db")
	s, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other.db")
	if err := os.WriteFile(other, []byte("This is no database, however long one reads it. "+strings.Repeat("x", 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, tt := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"no command":               {nil, exitUsage, "", "usage: flowctl COMMAND"},
		"help":                     {[]string{"-help"}, 0, "usage: flowctl COMMAND", ""},
		"an unknown command":       {[]string{"drop"}, exitUsage, "", `unknown command "drop"`},
		"no store":                 {[]string{"migrate"}, exitUsage, "", "usage: flowctl migrate"},
		"an unknown flag":          {[]string{"migrate", "--force"}, exitUsage, "", "not defined: -force"},
		"more than a store":        {[]string{"migrate", "--store", "sqlite:" + path, "now"}, exitUsage, "", "usage: flowctl migrate"},
		"an unknown kind of store": {[]string{"migrate", "--store", "tape:1"}, exitFailed, "", "known are"},
		"a present store":          {[]string{"migrate", "--store", "sqlite:" + path}, 0, "has the format of this release", ""},
		"no file":                  {[]string{"migrate", "--store", "sqlite:" + path + "2"}, exitFailed, "", "does not exist"},
		"a file of something else": {[]string{"migrate", "--store", "sqlite:" + other}, exitRefused, "", "other.db"},
	} {
		var stdout, stderr strings.Builder
		code := run(t.Context(), tt.args, &stdout, &stderr)
		if code != tt.code || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("%s: exit code %d, want %d\nstdout: %s\nstderr: %s", what, code, tt.code, &stdout, &stderr)
		}
	}
}
