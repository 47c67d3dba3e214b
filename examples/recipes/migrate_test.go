package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/examples/recipes/migrate"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
	"github.com/google/go-cmp/cmp"
)

// The test proves that the old and the new program together send each mail once. The old program
// sends some mails and is stopped. The import crashes once and is repeated.
func TestMigrate_EachMailIsSentOnceByTheOldOrTheNewProgram(t *testing.T) {
	ctx := limited(t)
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "jobs.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var mu sync.Mutex
	sent := map[string]int{}
	send := func(to, text string) {
		mu.Lock()
		defer mu.Unlock()
		sent[to+" "+text]++
	}
	clock := storetest.NewClock()
	now := clock.Now()
	old := &migrate.Before{DB: db, Mail: func(_ context.Context, to, text string) error { send(to, text); return nil }}
	for user, ago := range map[string]time.Duration{"ann": 100 * time.Hour, "bob": 99 * time.Hour, "cat": time.Hour, "dan": 0} {
		if err := old.Enqueue(ctx, "welcome", user, now.Add(-ago)); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []time.Time{now.Add(-99 * time.Hour), now.Add(-99 * time.Hour), now.Add(-75 * time.Hour)} { // There are two welcome mails, and only one of them was followed by its tips.
		if more, err := old.Next(ctx, at); !more || err != nil {
			t.Fatalf("the old program has no job: %v", err)
		}
	}

	st := memstore.NewWith(memstore.Config{Clock: clock})
	client := workflow.NewClient(st, quiet)
	w := worker.New(client, worker.Config{})
	migrate.Register(w, &migrate.Mails{Send: func(_ context.Context, _, to, text string) error { send(to, text); return nil }})
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(working) }()
	// The import fails between the start of the first run and the update of its job.
	for _, statement := range []string{"CREATE TRIGGER crash BEFORE UPDATE ON jobs BEGIN SELECT RAISE(ABORT, 'crash'); END", "DROP TRIGGER crash"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			t.Fatal(err)
		}
		n, err := migrate.Import(ctx, db, client)
		if want := statement == "DROP TRIGGER crash"; (err == nil) != want || (n == 3) != want {
			t.Fatalf("after %s: imported %d jobs: %v", statement, n, err)
		}
	}
	for info, err := range client.List(ctx, workflow.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if info.Workflow == migrate.Tips.Name() {
			if _, err := migrate.Tips.Get(client, info.ID).Result(ctx); err != nil {
				t.Fatal(err)
			}
			continue
		}
		run := migrate.Welcome.Get(client, info.ID)
		for _, err := range run.Events(ctx, workflow.Types(event.WaitCreated)) { // Wait until the run sleeps.
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		clock.Advance(25 * time.Hour)
		if _, err := run.Result(ctx); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := errors.Join(<-worked, client.Close(), st.Close()); err != nil {
		t.Error(err)
	}
	delete(sent, "all digest") // The clock has passed some nights, so digests were sent.
	want := map[string]int{}
	for _, user := range []string{"ann", "bob", "cat", "dan"} {
		want[user+" welcome"], want[user+" tips"] = 1, 1
	}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("mails sent (-want +got):\n%s", diff)
	}
}

// The test proves that the new program sends both mails after a crash at each of its events.
func TestMigrate_TheNewProgramSurvivesEachCrash(t *testing.T) {
	workflowtest.CrashEverywhere(t, migrate.Welcome, "ann", func(env *workflowtest.Env) {
		migrate.Register(env, &migrate.Mails{
			Send: func(context.Context, string, string, string) error { return nil },
		})
	})
}
