package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/admin"
)

func TestOPS1_AnActionTakesAFilter(t *testing.T) {
	s := open(t)
	for _, args := range [][]string{
		{"cancel"}, {"cancel", "--workflow", "shop.order"}, {"cancel", "--workflow", "shop.order", "-y"}, {"cancel", "--workflow", "shop.order", s.runs["wait"]}, {"cancel", "--children", "-y", "--expect", "9"},
		{"cancel", "--dry-run", s.runs["wait"]}, {"fork", "--workflow", "shop.order", "--dry-run"}, {"cancel", "--status", "asleep", "--dry-run"}, {"cancel", "--all", "-y", "--expect", "1", "--rate", "-1"},
	} {
		if g := s.flowctl(args...); g.code != 2 || g.stderr == "" {
			t.Errorf("flowctl %s: %+v, want exit code 2", strings.Join(args, " "), g)
		}
	}
	if g := s.flowctl("cancel", "--status", "held", "-y", "--expect", "7"); g.code != 4 || !strings.Contains(g.stderr, "1 runs match, where 7 were expected") {
		t.Errorf("a number that is off: %+v", g)
	}
	if g := s.flowctl("cancel", "--status", "sleeping"); g.code != 0 || !strings.Contains(g.stderr, "no run matches") {
		t.Errorf("no run: %+v", g)
	}
	dry := s.flowctl("cancel", "--all", "--dry-run", "--json")
	var p admin.BulkPreview
	if err := json.Unmarshal([]byte(dry.stdout), &p); err != nil || dry.code != 0 || p.Count != len(s.runs) || p.Refused != 2 {
		t.Errorf("--dry-run: %+v, %v", dry, err)
	}
	if g := s.flowctl("bulk", "--json"); g.code != 0 || strings.Contains(g.stdout, `"id"`) {
		t.Errorf("something was done: %+v", g)
	}
	done := s.flowctl("cancel", "--status", "held", "-y", "--expect", "1", "--reason", "no more \x1b[31m", "--json")
	var b admin.Bulk
	if err := json.Unmarshal([]byte(done.stdout), &b); err != nil || done.code != 0 || b.Status != admin.BulkCompleted || b.Done != 1 {
		t.Fatalf("cancel: %+v, %v", done, err)
	}
	if g := s.flowctl("show", s.runs["held"]); !strings.Contains(g.stdout, "cancelled") {
		t.Errorf("show: %+v", g)
	}
	part := s.flowctl("pause", "--all", "-y", "--expect", "4")
	if part.code != 5 || !strings.Contains(part.stdout, "does not take pause") {
		t.Errorf("a part was refused: %+v", part)
	}
	list := s.flowctl("bulk", "-o", "name")
	if ids := strings.Fields(list.stdout); list.code != 0 || len(ids) != 2 || ids[1] != b.ID {
		t.Errorf("bulk: %+v", list)
	}
	if g := s.flowctl("bulk", "stop", b.ID); g.code != 4 {
		t.Errorf("bulk stop: %+v", g)
	}
	if g := s.flowctl("bulk", "show", "bulk-0"); g.code != 3 {
		t.Errorf("bulk show: %+v", g)
	}
}

// The test proves that a bulk action without a worker is reported, and that flowctl serve or a
// command that waits for the action continues it.
func TestOPS1_ABulkActionGoesOnWithAnotherProcess(t *testing.T) {
	s := open(t)
	left := s.flowctl("cancel", "--status", "held", "-y", "--expect", "1", "--no-wait", "-o", "name")
	id := strings.TrimSpace(left.stdout)
	if left.code != 0 || !strings.Contains(left.stderr, "start flowctl serve") {
		t.Fatalf("--no-wait: %+v", left)
	}
	if g := s.flowctl("bulk", "show", id); g.code != 0 || !strings.Contains(g.stdout, "pending") || !strings.Contains(g.stderr, "start flowctl serve") {
		t.Errorf("bulk show: %+v", g)
	}
	server := s.serve("127.0.0.1:0")
	if g := flowctl(t, "--server", server.url, "bulk", "show", id, "--wait"); g.code != 0 || !strings.Contains(g.stdout, "completed") {
		t.Errorf("bulk show --wait: %+v", g)
	}
	if g := flowctl(t, "--server", server.url, "cancel", "--status", "waiting", "-y", "--expect", "1"); g.code != 0 || !strings.Contains(g.stdout, "completed") {
		t.Errorf("over a server: %+v", g)
	}
}
