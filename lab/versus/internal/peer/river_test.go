package peer_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/lab/versus/internal/contest"
	"github.com/flowgen/flowgen/lab/versus/internal/peer"
	"github.com/flowgen/flowgen/lab/versus/internal/server"
	"github.com/flowgen/flowgen/lab/versus/internal/task"
)

// TestRiverWithAShortCooldown_IsNotifiedOfJobsThatFollowEachOther proves that the adapter permits River
// to notify its worker of each job. Without a notification a job waits for the next poll, up to a second.
func TestRiverWithAShortCooldown_IsNotifiedOfJobsThatFollowEachOther(t *testing.T) {
	dir, err := os.MkdirTemp("", "versus-test-") //nolint:usetesting // the directory of the test is not accessible to another user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s, err := server.StartPostgreSQL(t.Context(), dir)
	if err != nil {
		if strings.Contains(err.Error(), "is missing") {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	url, err := s.NewDatabase(t.Context(), "jobs")
	if err != nil {
		t.Fatal(err)
	}
	probe := &task.Probe{}
	engine, err := contest.System("River (1 ms)@PostgreSQL").Open(t.Context(), peer.Env{URL: url, Concurrency: 1, Probe: probe})
	if err != nil {
		t.Fatal(err)
	}
	const jobs = 20
	begin := time.Now()
	for n := range jobs {
		in := task.NewInput(n, 1, false)
		w := probe.Watch(in)
		if _, err := engine.Start(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		<-w.Done
	}
	if took := time.Since(begin); took > jobs*time.Second/4 {
		t.Errorf("%d jobs, each started when the previous one was executed, took %v, want less than a quarter of the polls that they could wait for", jobs, took)
	}
	if err := engine.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
