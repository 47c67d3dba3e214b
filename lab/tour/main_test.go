package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestMain runs a worker if the environment contains the configuration of one.
func TestMain(m *testing.M) {
	if workerWanted() {
		if err := workerProcess(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// take runs the tour and returns its output by row.
func take(t *testing.T, args ...string) map[string]string {
	t.Helper()
	o, err := parse(append(args, "-json", "-messages", "400", "-timeout", "100s"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = run(t.Context(), o, &out, io.Discard)
	rows := map[string]string{}
	for line := range strings.Lines(out.String()) {
		var row struct {
			Row, Observed string
			OK            bool
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if rows[row.Row] = row.Observed; !row.OK {
			t.Errorf("%s does not hold: %s", row.Row, row.Observed)
		}
	}
	if err != nil {
		t.Error(err)
	}
	for _, s := range stops {
		if rows[s.row] == "" {
			t.Errorf("nothing is said about %s", s.row)
		}
	}
	return rows
}

// The test proves that the tour holds on every store. In make test, only memory is used, because
// TestTour_HoldsWhileWorkersAreKilled visits the same stops on Redis.
func TestTour_HoldsOnEveryStore(t *testing.T) {
	for name, url := range map[string]func(t *testing.T) string{
		"memory": func(*testing.T) string { return "memory:" },
		"sqlite": func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "tour.db") },
		"redis":  func(t *testing.T) string { return redistest.Start(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			if name != "memory" {
				depth.NeedFull(t)
			}
			rows := take(t, "-store", url(t))
			if got, want := rows["FLOW10"], "400 messages, 4 continuations, sum right"; got != want {
				t.Errorf("FLOW10 says %q, want %q", got, want)
			}
		})
	}
}

func TestTour_HoldsWhileWorkersAreKilled(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(t *testing.T) string{
		"sqlite": func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "tour.db") },
		"redis":  func(t *testing.T) string { return redistest.Start(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "redis" {
				depth.NeedFull(t)
			}
			if rows := take(t, "-store", url(t), "-chaos", "-kills", "4"); !strings.Contains(rows["REC2"], "killed") {
				t.Errorf("REC2 says %q", rows["REC2"])
			}
		})
	}
}

// TestOPS5_TheTourLeavesNoUserDataUnsealed proves that all features work with a codec while workers are
// killed, and that each field with user data in the logs, inboxes and streams of their runs is sealed.
func TestOPS5_TheTourLeavesNoUserDataUnsealed(t *testing.T) {
	key, err := codec.NewKey("k1")
	if err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]func(t *testing.T) string{
		"sqlite": func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "tour.db") },
		"redis":  func(t *testing.T) string { return redistest.Start(t).URL() },
	} {
		for _, with := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, with a codec %v", name, with), func(t *testing.T) {
				if name != "sqlite" || !with {
					depth.NeedFull(t)
				}
				if with {
					t.Setenv("FLOWGEN_CODEC_KEYS", key.Text())
				}
				at := url(t)
				take(t, "-store", at, "-chaos", "-kills", "4")
				sealed, plain := userData(t, at)
				if with && (sealed < 500 || len(plain) > 0) || !with && (sealed > 0 || len(plain) < 20) {
					t.Errorf("%d fields are sealed, and these are not: %v", sealed, plain)
				}
			})
		}
	}
}

// userData counts the sealed fields with user data in a store. plain contains the number of fields that
// are not sealed, by their type and name.
func userData(t *testing.T, url string) (sealed int, plain map[string]int) {
	t.Helper()
	st, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	inspector, _ := store.As[store.Inspector](st)
	snap, err := inspector.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plain = map[string]int{}
	count := func(b []byte, p event.Part, content []byte) ([]byte, error) {
		if event.IsSealed(content) {
			sealed++
		} else {
			plain[p.Type.String()+"/"+p.Name]++
		}
		return append(b, content...), nil
	}
	for _, r := range snap.Runs {
		for _, frame := range r.Frames {
			if _, err := event.ConvertFrame(frame, count); err != nil {
				t.Error(err)
			}
		}
		for _, item := range r.Inbox {
			if _, err := event.ConvertItem(item.Body, count); err != nil {
				t.Error(err)
			}
		}
	}
	for _, streams := range snap.Streams {
		for _, s := range streams {
			for _, c := range s.Chunks {
				if len(c.Body) > 0 {
					_, _ = count(nil, event.Part{Type: event.StreamWritten, Name: "chunk"}, c.Body)
				}
			}
		}
	}
	return sealed, plain
}

func TestTour_SaysWhichRowsDoNotHold(t *testing.T) {
	var out strings.Builder
	tr := &tour{ctx: t.Context(), report: newReport(&out, false)}
	tr.visit([]stop{
		{"ROW1", "it is seen", func(*tour) (string, error) { return "seen", nil }},
		{"ROW2", "it is two", func(*tour) (string, error) { return "", expect("it", 1, 2) }},
	}, 1)
	err := tr.report.end()
	if err == nil || !strings.Contains(err.Error(), "it is two (ROW2)") || strings.Contains(err.Error(), "ROW1") {
		t.Errorf("got %v, want an error that names ROW2", err)
	}
	if want := "ok     it is seen: seen (ROW1)\nFAILED it is two: it: got 1, want 2 (ROW2)\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestParse_RefusesWhatMakesNoSense(t *testing.T) {
	for _, args := range [][]string{{"-chaos"}, {"-messages", "10"}, {"-messages", "-400"}, {"more"}, {"-no-such"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}
