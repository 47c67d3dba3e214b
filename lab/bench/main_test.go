package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestRun_ExitCodes(t *testing.T) {
	for _, tt := range []struct {
		args        []string
		code        int
		out, errors string
	}{
		{nil, 2, "", "usage: bench"},
		{[]string{"help"}, 0, "usage: bench", ""},
		{[]string{"--help"}, 0, "usage: bench", ""},
		{[]string{"dance"}, 2, "", `no command "dance"`},
		{[]string{"chaos", "-help"}, 0, "usage: bench chaos", ""},
		{[]string{"chaos", "-runs", "x"}, 2, "", "bench chaos: invalid value"},
	} {
		var out, errors bytes.Buffer
		code := run(t.Context(), tt.args, &out, &errors)
		if code != tt.code || !strings.Contains(out.String(), tt.out) || !strings.Contains(errors.String(), tt.errors) {
			t.Errorf("%q: exit code %d, %q, %q; want %d, %q, %q", tt.args, code, &out, &errors, tt.code, tt.out, tt.errors)
		}
		if tt.out == "" && out.Len() > 0 || tt.errors == "" && errors.Len() > 0 {
			t.Errorf("%q: printed %q and %q", tt.args, &out, &errors)
		}
	}
}

func TestHelp_NamesEveryCommand(t *testing.T) {
	for name := range commands {
		if !strings.Contains(help, "\n  "+name+" ") {
			t.Errorf("the help does not mention %s", name)
		}
	}
}
