package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/cmd/flowctl/cli"
	"github.com/flowgen/flowgen/runtime/store"
)

// SQL statements that damage the file. A repair can fix the damage by loseTags. The damage by
// loseFrame requires a backup.
const (
	loseTags  = `DELETE FROM tags`
	loseFrame = `DELETE FROM frames WHERE n = 2 AND run = (SELECT DISTINCT run FROM frames ORDER BY run LIMIT 1 OFFSET 2)` // the frame belongs to the waiting run
)

// damage executes SQL statements on the file. Each of them must change a row.
func (s *shop) damage(statements ...string) {
	s.t.Helper()
	conn, err := sqlite.OpenConn(strings.TrimPrefix(s.url, "sqlite:"), sqlite.OpenReadWrite)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, statement := range statements {
		if err = errors.Join(err, sqlitex.ExecuteTransient(conn, statement, nil)); conn.Changes() == 0 {
			s.t.Errorf("%s changes nothing", statement)
		}
	}
	if err := errors.Join(err, conn.Close()); err != nil {
		s.t.Fatal(err)
	}
}

// checked returns the parsed JSON output of fsck.
func (s *shop) checked(code int, args ...string) admin.Checked {
	s.t.Helper()
	g := s.flowctl(append([]string{"fsck", "--json"}, args...)...)
	var r admin.Checked
	if err := json.Unmarshal([]byte(g.stdout), &r); err != nil || g.code != code {
		s.t.Fatalf("fsck %v: exit code %d, want %d: %v\n%s%s", args, g.code, code, err, g.stdout, g.stderr)
	}
	return r
}

func TestOPS1_FsckFindsNothingInASoundStore(t *testing.T) {
	s := open(t)
	s.wants(0, []string{"Runs: 4. No violations."}, nil, "fsck")
	s.wants(0, []string{"Runs: 4. Repairs made: 0. Findings left: 0."}, nil, "fsck", "--repair", "-y")
	if r := s.checked(0); r.Repair || r.Runs != 4 || len(r.Fixes)+r.Left > 0 {
		t.Errorf("as JSON: %+v", r)
	}
}

func TestOPS1_FsckPrintsWhatIsBrokenAndRepairsIt(t *testing.T) {
	s := open(t)
	s.damage(loseTags)
	for range 2 { // The second check proves that the first one has repaired nothing.
		s.wants(7, []string{"INVARIANT", "4 ", s.runs["bad"], "planned", "flowctl fsck --repair"}, nil, "fsck")
	}
	s.wants(7, []string{"wrong_record", "WHAT COMES OF IT"}, nil, "fsck", "-o", "wide")
	s.wants(7, []string{s.runs["wait"] + "\n"}, nil, "fsck", "-o", "name")
	found := s.checked(7)
	if lines := strings.Count(s.flowctl("fsck", "-o", "jsonl").stdout, "\n"); lines != len(found.Fixes) || lines == 0 {
		t.Errorf("%d lines of %d repairs", lines, len(found.Fixes))
	}
	s.wants(0, []string{s.runs["bad"], "repaired", "Runs: 4. Repairs made: 3. Findings left: 0."}, nil, "fsck", "--repair", "-y")
	s.wants(0, []string{"No violations."}, nil, "fsck")
	if journal := s.flowctl("journal", "-o", "jsonl").stdout; strings.Count(journal, "\n") != 1 || !strings.Contains(journal, `"repair"`) || !strings.Contains(journal, `"ok"`) {
		t.Errorf("the journal has, after one repair and several looks:\n%s", journal)
	}
	s.wants(0, []string{s.runs["bad"]}, nil, "runs", "--tag", "region=eu", "-o", "name")
}

func TestOPS1_FsckSaysWhatNoRepairMends(t *testing.T) {
	s := open(t)
	s.damage(loseTags, loseFrame)
	g := s.flowctl("fsck")
	if g.code != 7 || !hasRow(g.stdout, "1", s.runs["wait"], "remains") || hasRow(g.stdout, "1", s.runs["wait"], "planned") || !hasRow(g.stdout, "4", s.runs["bad"], "planned") {
		t.Errorf("exit code %d\n%s", g.code, g.stdout)
	}
	g = s.flowctl("fsck", "--repair", "-y")
	if g.code != 7 || !hasRow(g.stdout, "1", s.runs["wait"], "repaired") || !hasRow(g.stdout, "1", s.runs["wait"], "remains") || !hasRow(g.stdout, "4", s.runs["bad"], "repaired") {
		t.Errorf("exit code %d\n%s", g.code, g.stdout)
	}
	s.wants(0, []string{s.runs["wait"] + "\n"}, nil, "runs", "--status", "blocked", "-o", "name") // The log of this run cannot be repaired.
	r := s.checked(7, "--repair", "-y")
	if !r.Repair || r.Left == 0 || r.Total == 0 || r.Total != len(r.Fixes) {
		t.Errorf("after a repair: %+v", r)
	}
	for _, f := range r.Fixes {
		if f.Run != s.runs["wait"] || len(f.Broken) == 0 || f.Broken[0].Invariant != 1 || !f.Broken[0].Lasting {
			t.Errorf("left after a repair: %+v", f)
		}
	}
}

func TestOPS1_FsckSaysAndRepairsTheSameOverAServer(t *testing.T) {
	s := open(t)
	s.damage(loseTags)
	server := s.serve("127.0.0.1:0")
	direct := s.checked(7)
	g := flowctl(t, "fsck", "--json", "--server", server.url)
	var over admin.Checked
	if err := json.Unmarshal([]byte(g.stdout), &over); err != nil || g.code != 7 {
		t.Fatalf("fsck over a server: %+v, %v", g, err)
	}
	if diff := cmp.Diff(direct, over); diff != "" {
		t.Errorf("over a server (-direct +remote):\n%s", diff)
	}
	fits(t, "Checked", g.stdout)
	if g := flowctl(t, "fsck", "--repair", "--server", server.url); g.code != 2 || !strings.Contains(g.stderr, "give -y") {
		t.Errorf("a repair that nobody has confirmed: %+v", g)
	}
	if g := flowctl(t, "fsck", "--repair", "-y", "--server", server.url); g.code != 0 || !strings.Contains(g.stdout, "Runs: 4. Repairs made: 3. Findings left: 0.") || !hasRow(g.stdout, "4", s.runs["bad"], "repaired") {
		t.Errorf("repair over a server: %+v", g)
	}
	if g := flowctl(t, "fsck", "--server", server.url); g.code != 0 || !strings.Contains(g.stdout, "No violations.") {
		t.Errorf("after the repair: %+v", g)
	}
	if all := s.entries("--action", "repair"); len(all) != 1 || all[0].Face != admin.FaceAPI || all[0].Outcome != admin.OutcomeDone {
		t.Errorf("the journal has %+v, want the repair by the API", all)
	}
}

// The test proves that fsck reports and removes invalid entries of the journal and the catalog.
func TestOPS1_FsckRemovesWhatIsNoEntryOfTheJournalOrTheCatalogue(t *testing.T) {
	s := open(t)
	s.wants(0, nil, nil, "pause", s.runs["wait"])
	id := store.NewJournalID(time.Now())
	s.damage(`INSERT INTO entries VALUES ('journal', '`+id+`', CAST('{"p":"ada' AS BLOB))`, `INSERT INTO entries VALUES ('catalog', 'shop.other', CAST('[]' AS BLOB))`)
	g := s.flowctl("fsck", "-o", "wide")
	for _, want := range []string{
		`journal has "{\"p\":\"ada" under "` + id + `", which is not an entry`, "it is not shown", "remove it", `catalog has "[]" under "shop.other"`,
	} {
		if !strings.Contains(g.stdout, want) {
			t.Errorf("want %q in\n%s", want, g.stdout)
		}
	}
	if g.code != 7 || !hasRow(g.stdout, "24", "planned") {
		t.Errorf("exit code %d\n%s", g.code, g.stdout)
	}
	s.wants(0, []string{"Repairs made: 2. Findings left: 0."}, nil, "fsck", "--repair", "-y")
	s.wants(0, []string{"No violations."}, nil, "fsck")
	if all := s.entries(); len(all) != 2 || all[0].Action != "repair" || all[1].Action != "pause" {
		t.Errorf("the journal has %+v, want the repair and the action before it", all)
	}
}

// The test proves that show prints the readable data of a run with a damaged log. It prints the
// events before the damage. The test covers direct access and a server.
func TestOPS1_ShowPrintsWhatIsKnownOfADamagedRun(t *testing.T) {
	s := open(t)
	s.damage(`DELETE FROM frames WHERE n > 1 AND run = (SELECT DISTINCT run FROM frames ORDER BY run LIMIT 1 OFFSET 1)`) // the frames belong to the failed run
	for _, args := range [][]string{{"show", s.runs["bad"]}, {"show", s.runs["bad"], "--events"}, {"show", s.runs["bad"], "--json"}} {
		s.wants(1, []string{s.runs["bad"], "order-bad", "failed", "it is missing", "flowctl fsck shows"}, []string{"it is missing", "flowctl fsck shows"}, args...)
	}
	s.wants(1, []string{"run_created"}, nil, "show", s.runs["bad"], "--events")
	s.wants(1, []string{"run_created"}, nil, "show", s.runs["bad"], "--json")
	s.wants(0, []string{"completed"}, nil, "show", s.runs["good"])
	server := s.serve("127.0.0.1:0")
	g := flowctl(t, "show", s.runs["bad"], "--json", "--server", server.url)
	if direct := s.flowctl("show", s.runs["bad"], "--json"); g.code != 1 || g.stdout != direct.stdout {
		t.Errorf("over a server: exit code %d, and\n%s\nwant\n%s", g.code, g.stdout, direct.stdout)
	}
}

// hasRow reports whether a table has a row whose first cells are the given ones.
func hasRow(table string, cells ...string) bool {
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > len(cells) && slices.Equal(f[:len(cells)], cells) {
			return true
		}
	}
	return false
}

func TestOPS1_FsckAsksBeforeItRepairs(t *testing.T) {
	s := open(t)
	s.damage(loseTags)
	s.wants(2, nil, []string{"fsck --repair cannot be undone", "give -y"}, "fsck", "--repair")
	null, err := os.Open(os.DevNull) // The null device is no terminal and contains no input.
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var stdout, stderr bytes.Buffer
	code := cli.Main(t.Context(), cli.Config{Args: []string{"fsck", "--repair", "--store", s.url}, Stdin: null, Stdout: &stdout, Stderr: &stderr})
	if code != 2 || !strings.Contains(stderr.String(), "Repair all violations?") || stdout.Len() > 0 {
		t.Errorf("exit code %d\n%s%s", code, &stdout, &stderr)
	}
	s.checked(7)
}

func TestOPS1_FsckNamesWorkflowIdsAndTheRunsThatTheyLost(t *testing.T) {
	s := open(t)
	s.damage(`UPDATE workflow_ids SET active = NULL`)
	if g := s.flowctl("fsck", "-o", "name"); g.code != 7 || !sameLines(g.stdout, s.runs["wait"], s.runs["held"]) {
		t.Errorf("runs that their workflow ids do not lead to: %+v", g)
	}
	s.damage(`DELETE FROM workflow_ids`, loseTags, `DELETE FROM tallies`) // The damage causes two findings for most runs, and one without a run.
	if g := s.flowctl("fsck", "-o", "name"); !sameLines(g.stdout, s.runs["good"], s.runs["bad"], s.runs["wait"], s.runs["held"]) {
		t.Errorf("each run once: %+v", g)
	}
}

// sameLines reports whether a text consists of the given lines in any order.
func sameLines(text string, want ...string) bool {
	return slices.Equal(slices.Sorted(strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n")), slices.Sorted(slices.Values(want)))
}

// torn is a store whose scans fail after a number of calls.
type torn struct {
	store.Store
	store.Rebuilder
	left int
}

func (s *torn) ReadPartition(ctx context.Context, partition int) (*store.PartitionState, error) {
	if s.left--; s.left < 0 {
		return nil, errors.New("the disk is gone")
	}
	return s.Rebuilder.ReadPartition(ctx, partition)
}

func TestOPS1_FsckPrintsWhatItDidBeforeTheStoreFailed(t *testing.T) {
	s := open(t)
	s.damage(loseTags)
	fails := func(after int) func(store.Store) store.Store {
		return func(st store.Store) store.Store {
			r, _ := store.As[store.Rebuilder](st)
			return &torn{st, r, after}
		}
	}
	g := s.with(fails(0), "fsck", "--repair", "-y", "--json")
	if g.code != 1 || g.stdout != "" || !strings.Contains(g.stderr, "the disk is gone") {
		t.Errorf("before anything was found: %+v", g)
	}
	g = s.with(fails(1), "fsck", "--repair", "-y")
	if g.code != 1 || !strings.Contains(g.stdout, "repaired") || strings.Contains(g.stdout, "Findings left") || !strings.Contains(g.stderr, "the disk is gone") {
		t.Errorf("after a repair: %+v", g)
	}
}

func TestOPS1_DoctorAndFsckSayThatAStoreFailsOrCannot(t *testing.T) {
	s := open(t)
	wrap := func(st store.Store) store.Store { return failing{st} }
	if g := s.with(wrap, "doctor"); g.code != 124 || g.stdout != "" {
		t.Errorf("doctor: %+v", g)
	}
	if g := s.with(wrap, "fsck"); g.code != 1 || g.stdout != "" || !strings.Contains(g.stderr, "let it implement store.Rebuilder") {
		t.Errorf("fsck: %+v", g)
	}
}

// with executes flowctl on the store of the shop after wrap was applied to it.
func (s *shop) with(wrap func(store.Store) store.Store, args ...string) got {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Main(s.t.Context(), cli.Config{
		Args: append([]string{"--store", s.url}, args...), Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		Open: func(ctx context.Context, url string) (store.Store, error) {
			st, err := store.Open(ctx, url)
			if err != nil {
				return nil, err
			}
			return wrap(st), nil
		},
	})
	return got{code, stdout.String(), stderr.String()}
}
