package outage_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/store"
)

var (
	errRefused  = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	errPassword = errors.New("WRONGPASS invalid username-password pair")
)

// told calls f with a Log whose quiet time is a second. It returns the lines that the Log has
// written.
func told(t *testing.T, f func(l *outage.Log)) []string {
	t.Helper()
	var text strings.Builder
	synctest.Test(t, func(*testing.T) {
		logger := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "worker" || a.Key == "what" {
				return slog.Attr{}
			}
			return a
		}}))
		f(outage.New(logger, slog.String("worker", "w"), time.Second))
	})
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the lines (-want +got):\n%s", diff)
	}
}

func TestLog_TellsOfAnOutageAtPowersOfTwoAndWhenItIsOver(t *testing.T) {
	ctx := t.Context()
	got := told(t, func(l *outage.Log) {
		l.Note(ctx, "claim", nil, 1)
		for i := range 5 {
			l.Note(ctx, "claim", fmt.Errorf("claim: %w", errRefused), i%2)
			l.Note(ctx, "commit", io.EOF)
			time.Sleep(time.Second)
		}
		l.Note(ctx, "claim", nil, 0, 1)
		l.Note(ctx, "claim", store.ErrExpired, 0) // an error with which the store answers
		time.Sleep(time.Hour)
		l.Note(ctx, "claim", nil, 0)
	})
	want(t, got,
		`level=ERROR msg="store fails: retrying" error="claim: dial tcp: connection refused" tries=1 for=0s`,
		`level=ERROR msg="store fails: retrying" error=EOF tries=2 for=0s`,
		`level=ERROR msg="store fails: retrying" error=EOF tries=4 for=1s`,
		`level=ERROR msg="store fails: retrying" error=EOF tries=8 for=3s`,
		`level=WARN msg="store works again" failed=5s tries=10`)
}

func TestLog_TellsEachCause(t *testing.T) {
	got := told(t, func(l *outage.Log) {
		for range 2 {
			l.Note(t.Context(), "claim", errPassword, 0)
			l.Note(t.Context(), "claim", errRefused, 0)
		}
		l.Note(t.Context(), "claim", fmt.Errorf("read: %w", net.ErrClosed), 0) // the third failure with the same cause
		for i := range 100 {
			l.Note(t.Context(), "claim", fmt.Errorf("its own %d", i), 0)
		}
	})
	if len(got) != 4+6+7 { // 2 lines for each of two causes, 1 for each of six, and 7 for the other 94 as one cause
		t.Errorf("%d lines:\n%s", len(got), strings.Join(got, "\n"))
	}
}

// TestLog_AnOutageIsNotOverWhileSomethingFails proves that an outage does not end while one
// partition is lost and others answer, or while one request fails and others succeed.
func TestLog_AnOutageIsNotOverWhileSomethingFails(t *testing.T) {
	ctx := t.Context()
	got := told(t, func(l *outage.Log) {
		l.Note(ctx, "claim", errRefused, 7)
		for range 100 {
			l.Note(ctx, "claim", nil, 1)
			time.Sleep(time.Second)
		}
		l.Note(ctx, "claim", nil, 7)
		for range 2 { // one request each half second
			l.Note(ctx, "commit", errRefused, 7)
			l.Note(ctx, "heartbeat", nil, 7)
			time.Sleep(time.Second / 2)
		}
		time.Sleep(time.Second)
		l.Note(ctx, "heartbeat", nil, 7)
	})
	want(t, got,
		`level=ERROR msg="store fails: retrying" error="dial tcp: connection refused" tries=1 for=0s`,
		`level=WARN msg="store works again" failed=1m40s tries=1`,
		`level=ERROR msg="store fails: retrying" error="dial tcp: connection refused" tries=1 for=0s`,
		`level=ERROR msg="store fails: retrying" error="dial tcp: connection refused" tries=2 for=500ms`,
		`level=WARN msg="store works again" failed=500ms tries=2`)
}

func TestLog_WhoAsksNoLongerIsNoFailure(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	want(t, told(t, func(l *outage.Log) {
		l.Note(ended, "claim", context.Canceled, 0)
		l.Note(ended, "claim", errRefused, 0)
	}), "")
}

func TestLog_TellsOnceOfAStoreThatNeitherAnswersNorFails(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	got := told(t, func(l *outage.Log) {
		l.Await(t.Context(), "heartbeat")(nil)
		first, second := l.Await(t.Context(), "heartbeat"), l.Await(t.Context(), "open session")
		l.Await(ended, "heartbeat")
		cancel()
		time.Sleep(time.Minute)
		first(nil)
		time.Sleep(time.Second)
		second(store.ErrExpired) // an error with which the store answers
		third := l.Await(t.Context(), "heartbeat")
		time.Sleep(time.Minute)
		third(io.EOF)
	})
	want(t, got,
		`level=WARN msg="store does not answer: waiting" for=10s`,
		`level=WARN msg="store answers again" silent=1m1s`,
		`level=WARN msg="store does not answer: waiting" for=10s`,
		`level=ERROR msg="store fails: retrying" error=EOF tries=1 for=0s`)
}
