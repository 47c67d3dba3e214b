package sqlitestore

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// TestOPS4_SessionDataInAFileOfAnEarlierRelease proves that a file without the table of session data
// gets the table, and that the rows of sessions that an earlier release has ended are removed.
func TestOPS4_SessionDataInAFileOfAnEarlierRelease(t *testing.T) {
	s := openTest(t)
	ctx := testContext(t)
	check(t, s.write(ctx, func(tx *tx) error { return tx.exec(`DROP TABLE session_data`) }))
	later, err := Open(s.path)
	check(t, err)
	defer func() { check(t, later.Close()) }()
	for _, id := range []store.SessionID{"ended", "live"} {
		check(t, s.OpenSession(ctx, store.Session{ID: id, TTL: time.Hour}))
	}
	check(t, later.SetSessionData(ctx, 0, "ended", []byte("1")))
	check(t, s.write(ctx, func(tx *tx) error { return tx.exec(`DELETE FROM sessions WHERE name = 'ended'`) }))
	check(t, later.SetSessionData(ctx, 0, "live", []byte("2")))
	got, err := later.SessionData(ctx, 0)
	check(t, err)
	if len(got) != 1 || got[0].Session != "live" || string(got[0].Body) != "2" {
		t.Errorf("session data: got %+v, want 2 of the live session", got)
	}
	var rows int64
	check(t, s.read(ctx, func(c *conn) (err error) { rows, err = c.number(`SELECT count(*) FROM session_data`); return err }))
	if rows != 1 {
		t.Errorf("rows of session data: got %d, want 1", rows)
	}
}
