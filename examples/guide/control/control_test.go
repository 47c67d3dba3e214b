package control_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"

	"github.com/flowgen/flowgen/examples/guide/control"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// office implements an agency and a bank, and records their calls.
type office struct {
	mu   sync.Mutex
	full map[string]bool
	log  []string
}

func (o *office) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.log...)
}

func (o *office) fill(what string, is bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.full[what] = is
}

func serve(t *testing.T) (context.Context, *workflow.Client, *office, *sql.DB) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "bank.db"))
	if err != nil {
		t.Fatal(err)
	}
	o := &office{full: map[string]bool{}}
	agency := &control.Agency{
		Full: func(what string) bool { o.mu.Lock(); defer o.mu.Unlock(); return o.full[what] },
		Log:  func(line string) { o.mu.Lock(); defer o.mu.Unlock(); o.log = append(o.log, line) },
	}
	st := memstore.New()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	w := worker.New(client, worker.Config{})
	control.Register(w, agency, &control.Ledger{DB: db}, &control.Studio{})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	working, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	t.Cleanup(func() {
		stop()
		cancel()
		if err := errors.Join(<-ended, client.Close(), st.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return ctx, client, o, db
}

var trip = control.Trip{Hotel: "hotel", Flight: "flight"}

func TestTravel_GivesTheHotelBackIfThereIsNoFlight(t *testing.T) {
	ctx, client, o, _ := serve(t)
	o.fill("flight", true)
	run, err := control.Travel.Start(ctx, client, trip)
	if err != nil {
		t.Fatal(err)
	}
	_, err = run.Result(ctx)
	var failed *workflow.RunError
	if !errors.As(err, &failed) || len(failed.Undone) != 1 || !strings.HasSuffix(failed.Undone[0], "control.release") {
		t.Errorf("got %v", err)
	}
	o.fill("flight", false)
	again, err := control.GoOn(ctx, run) // The new run begins from the start, because the hotel was released.
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Result(ctx); err != nil || len(got) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	want := []string{"reserve hotel", "release booking of hotel", "reserve hotel", "reserve flight"}
	if diff := cmp.Diff(want, o.lines()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWatch_SeesTheFirstEvent(t *testing.T) {
	ctx, client, _, _ := serve(t)
	seen := make(chan event.Type, 100)
	err := control.Watch(ctx, client, trip, func(run *workflow.Run[[]string]) error {
		go func() {
			defer close(seen)
			for e, err := range run.Events(ctx) {
				if err != nil {
					t.Error(err)
					return
				}
				seen <- e.Type
			}
		}()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if first := <-seen; first != event.RunCreated {
		t.Errorf("the first event is %s", first)
	}
	last := event.Type(0)
	for typ := range seen {
		last = typ
	}
	if last != event.RunCompleted {
		t.Errorf("the last event is %s", last)
	}
}

func TestTrace_GoesOneOperationAtATime(t *testing.T) {
	ctx, client, o, _ := serve(t)
	steps := 0
	run, err := control.Trace(ctx, client, trip, func() bool { steps++; return steps < 2 })
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run.Result(ctx); err != nil || len(got) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	fork, err := control.FromLastStep(ctx, run)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fork.Result(ctx); err != nil || len(got) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	if diff := cmp.Diff([]string{"reserve hotel", "reserve flight", "reserve flight"}, o.lines()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAdmit_AsksTheBank(t *testing.T) {
	ctx, client, _, _ := serve(t)
	run, err := control.Admit.Start(ctx, client, "c-7")
	if err == nil {
		err = control.Answer.Send(ctx, run, "welcome")
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run.Result(ctx); err != nil || got != "booking of score of c-7: welcome" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestDraw_UsesTheOtherQueue(t *testing.T) {
	ctx, client, _, _ := serve(t)
	got, err := control.Draw.Execute(ctx, client, []string{"sea", "sky"})
	if diff := cmp.Diff([]string{"picture of sea", "picture of sky"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestSave_AddsOnce(t *testing.T) {
	ctx, client, _, db := serve(t)
	if _, err := db.ExecContext(ctx, "CREATE TABLE accounts (name text PRIMARY KEY, cents bigint); INSERT INTO accounts VALUES ('a', 5)"); err != nil {
		t.Fatal(err)
	}
	if got, err := control.Save.Execute(ctx, client, control.SaveInput{Account: "a", Cents: 7}); err != nil || got != 12 {
		t.Errorf("got %d, %v", got, err)
	}
}
