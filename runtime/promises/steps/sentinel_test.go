package steps_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// lyingError is an error whose Is method matches one sentinel and panics for another.
type lyingError struct{}

func (lyingError) Error() string { return "lying" }

func (lyingError) Is(target error) bool {
	if target == fs.ErrExist {
		panic("asked")
	}
	return target == errSoldOut
}

func openAbsent(path string) error { _, err := os.Open(path); return err }

func refusedDial() error {
	ctx, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	_, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:1")
	return err
}

// TestSTEP5_ErrorsMatchWhatTheySayTheyAre proves that the log keeps the matches of an error's own
// Is method.
func TestSTEP5_ErrorsMatchWhatTheySayTheyAre(t *testing.T) {
	file := filepath.Join(t.TempDir(), "none")
	errs := map[string]struct {
		err     error
		is, not error
	}{
		"of os.Open":            {openAbsent(file), fs.ErrNotExist, fs.ErrExist},
		"of os.Open, wrapped":   {fmt.Errorf("read: %w", openAbsent(file)), fs.ErrNotExist, fs.ErrPermission},
		"of a file that exists": {os.Mkdir(t.TempDir(), 0o700), fs.ErrExist, fs.ErrNotExist},
		"of a dial":             {refusedDial(), context.DeadlineExceeded, context.Canceled},
		"of one's own":          {lyingError{}, errSoldOut, fs.ErrExist},
		"of a workflow's end":   {fmt.Errorf("end: %w", workflow.ErrTimeout), nil, context.DeadlineExceeded},
	}
	failing := flowtest.AStep[string, int]("saying", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}})
	d := flowtest.Flow[string, string]("saying")
	matches := func(err error, name string) string {
		e := errs[name]
		if e.is != nil && !errors.Is(err, e.is) {
			return fmt.Sprintf("it is not %v", e.is)
		}
		if errors.Is(err, e.not) {
			return fmt.Sprintf("it is %v", e.not)
		}
		return ""
	}
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, failing.As(func(_ context.Context, name string) (int, error) { return 0, errs[name].err }),
			flowtest.As(d, func(ctx workflow.Context, name string) (string, error) {
				_, err := failing.Call(ctx, name)
				if wrong := matches(err, name); wrong != "" {
					return wrong, nil
				}
				return "", err
			}))
		for name := range errs {
			wrong, err := flowtest.Start(w, d, name).Result(w.Ctx)
			if wrong == "" {
				wrong = matches(err, name) // the error must also match after the end of the run
			}
			if wrong != "" || err == nil {
				t.Errorf("%s: %s (%v)", name, wrong, err)
			}
		}
	})
}

// TestFLOW9_TheRunErrorOfAFailedChildIsReachable proves that the error of the run in which a
// failure began, with its stack, can be reached from the outermost error.
func TestFLOW9_TheRunErrorOfAFailedChildIsReachable(t *testing.T) {
	top, middle, bottom := flowtest.Flow[int, int]("top"), flowtest.Flow[int, int]("middle"), flowtest.Flow[int, int]("bottom")
	call := func(d workflow.Definition[int, int], wrap string) func(ctx workflow.Context, n int) (int, error) {
		return func(ctx workflow.Context, n int) (int, error) {
			n, err := d.Child(ctx, n)
			if err != nil && wrap != "" {
				err = fmt.Errorf("%s: %w", wrap, err)
			}
			return n, err
		}
	}
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(top, call(middle, "")), flowtest.As(middle, call(bottom, "wrapped")),
			flowtest.As(bottom, func(workflow.Context, int) (int, error) { panic("at the bottom") }))
		failed := flowtest.Failure(w, flowtest.Start(w, top, 0))
		var names []string
		names = append(names, failed.Workflow)
		for inner := failed; errors.As(inner.Unwrap(), &inner); {
			failed = inner
			names = append(names, failed.Workflow)
		}
		if got, want := strings.Join(names, " "), "test.top test.middle test.bottom"; got != want {
			t.Errorf("the runs are %s, want %s", got, want)
		}
		if failed.Code != "panic" || !strings.Contains(failed.Stack(), "sentinel_test.go") {
			t.Errorf("the innermost has code %s and stack %q", failed.Code, failed.Stack())
		}
	})
}
