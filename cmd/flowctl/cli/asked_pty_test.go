//go:build unix

package cli_test

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// exits waits for the end of a command that has asked a question, and checks its exit code.
func (x *screen) exits(code int) {
	x.Helper()
	err := x.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		x.Fatal(err)
	}
	if got := x.cmd.ProcessState.ExitCode(); got != code {
		x.Errorf("exit code %d, want %d\n%q", got, code, x.sent(0))
	}
}

// types sends keys without waiting for output.
func (x *screen) types(keys string) {
	x.Helper()
	if _, err := x.terminal.WriteString(keys); err != nil {
		x.Fatal(err)
	}
}

// on returns a copy of the shop that reports failures to the subtest t.
func (s *shop) on(t *testing.T) *shop {
	other := *s
	other.t = t
	return &other
}

// nothing fails the test if an action was executed.
func (s *shop) nothing() {
	s.t.Helper()
	if all := s.entries(); len(all) > 0 {
		s.t.Errorf("the journal has %+v, want nothing", all)
	}
	if g := s.flowctl("bulk", "-o", "name"); g.code != 0 || g.stdout != "" {
		s.t.Errorf("bulk actions: %+v, want none", g)
	}
	s.wants(0, []string{"held"}, nil, "show", s.runs["held"])
	s.wants(0, []string{"waiting"}, nil, "show", s.runs["wait"])
}

func TestOPS1_TheNumberOfABulkActionIsTyped(t *testing.T) {
	s := open(t)
	for what, tt := range map[string]struct {
		keys string
		code int
		says string
	}{
		"another number":                  {"3\r", 2, "nothing was done"},
		"a part of the number":            {"\r", 2, "nothing was done"},
		"yes":                             {"y\r", 2, "nothing was done"},
		"the number and more":             {"2 runs\r", 2, "nothing was done"},
		"a sign":                          {"+2\r", 2, "nothing was done"},
		"ctrl+d":                          {"\x04", 2, "nothing was done"},
		"the number, ctrl+d and no enter": {"2\x04\x04", 2, "nothing was done"},
		"ctrl+c":                          {"\x03", 130, ""},
		"the number and ctrl+c":           {"2\x03", 130, ""},
	} {
		t.Run(what, func(t *testing.T) {
			s := s.on(t)
			x := s.onScreen("cancel", "--status", "held,waiting")
			x.until(0, "cancel 2 runs? Type the number to confirm: ")
			x.types(tt.keys)
			x.exits(tt.code)
			x.until(0, tt.says)
			s.nothing()
		})
	}
	t.Run("SIGTERM", func(t *testing.T) {
		s := s.on(t)
		x := s.onScreen("cancel", "--status", "held,waiting")
		x.until(0, "Type the number to confirm: ")
		if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		x.exits(130)
		s.nothing()
	})
	x := s.onScreen("cancel", "--status", "held,waiting")
	x.until(0, "Type the number to confirm: ")
	x.types("3\x7f 2\r") // The user corrects the number.
	x.exits(0)
	x.until(0, "completed")
	if g := s.flowctl("bulk"); !strings.Contains(g.stdout, "completed") {
		t.Errorf("bulk: %+v", g)
	}
	s.wants(0, []string{"cancelled"}, nil, "show", s.runs["held"])
	if all := s.entries(); len(all) != 1 || all[0].Action != "bulk" {
		t.Errorf("the journal has %+v, want the bulk action", all)
	}
}

func TestOPS1_WhatCannotBeUndoneIsAskedAtATerminal(t *testing.T) {
	s := open(t)
	for what, tt := range map[string]struct {
		keys string
		code int
	}{"no": {"n\r", 2}, "enter": {"\r", 2}, "ctrl+d": {"\x04", 2}, "yes, ctrl+d and no enter": {"y\x04\x04", 2}, "ctrl+c": {"\x03", 130}, "yes and ctrl+c": {"y\x03", 130}} {
		t.Run(what, func(t *testing.T) {
			s := s.on(t)
			x := s.onScreen("terminate", s.runs["held"])
			x.until(0, "[y/N] ")
			x.types(tt.keys)
			x.exits(tt.code)
			s.nothing()
		})
	}
	x := s.onScreen("terminate", s.runs["held"])
	x.until(0, "[y/N] ")
	x.types("y\r")
	x.exits(0)
	s.wants(0, []string{"cancelled"}, nil, "show", s.runs["held"])
}
