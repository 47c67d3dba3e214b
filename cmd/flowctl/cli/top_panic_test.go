//go:build unix

package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/creack/pty"

	"github.com/flowgen/flowgen/admin"
)

// fragile is a service whose calls panic.
type fragile struct{ service }

func (fragile) Count(context.Context, admin.Filter) (admin.Counts, error) { panic("a mistake in top") }

func TestOPS1_TopGivesTheTerminalBackAfterAPanic(t *testing.T) {
	terminal, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	before, err := term.GetState(tty.Fd())
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan string, 1)
	go func() {
		var all strings.Builder
		b := make([]byte, 4096)
		for {
			n, err := terminal.Read(b)
			all.Write(b[:n])
			if err != nil {
				sent <- all.String()
				return
			}
		}
	}()
	m := newTop(t.Context(), &command{url: "memory:"})
	m.service = fragile{}
	if err := m.run(tty, tty); err == nil {
		t.Error("a panic is no error")
	}
	after, err := term.GetState(tty.Fd())
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the terminal is left in another state: %+v, before %+v", after, before)
	}
	if err := tty.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-sent:
		if !strings.Contains(got, "\x1b[?1049h") || strings.LastIndex(got, "\x1b[?1049l") < strings.LastIndex(got, "\x1b[?1049h") {
			t.Errorf("the other screen is not left: %q", got)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the terminal is not closed")
	}
}
