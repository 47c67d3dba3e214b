package sqlitestore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// incompatible are the numbers of the sessions that have blocked a run, in the order in which
// they did, each with a space before it. As the text of a column it groups the blocked
// runs of a route: a claim looks once at each text, however many runs have it. There are
// few, because the numbers of sessions that are over go with the next block, and others
// are of different code.
type incompatible string

func (m incompatible) with(session int64) incompatible {
	return m + incompatible(fmt.Sprint(" ", session))
}

// sessions returns the numbers.
func (m incompatible) sessions() []int64 {
	var all []int64
	for number := range strings.FieldsSeq(string(m)) {
		if id, err := strconv.ParseInt(number, 10, 64); err == nil { // no session has another one
			all = append(all, id)
		}
	}
	return all
}

// liveOf returns those sessions that nobody has begun to recover.
func (c *conn) liveOf(m incompatible) ([]*session, error) {
	var live []*session
	for _, id := range m.sessions() {
		l, err := c.sessions(selectSession+`WHERE id = +? AND reason IS NULL`, id)
		if err != nil {
			return nil, err
		}
		live = append(live, l...)
	}
	return live, nil
}

// FindSession returns the number of a session, 0 if there is none.
func (t *tx) FindSession(id store.SessionID) (int64, error) {
	l, err := t.session(id)
	if t.lease = l; err != nil || l == nil {
		return 0, err
	}
	return l.id, nil
}

// Session returns the state of a session.
func (t *tx) Session(id int64) (protocol.Session, error) {
	if l := t.lease; l != nil && l.id == id {
		return protocol.Session{ID: l.name, Code: l.code, Over: l.reason != ""}, nil
	}
	found, err := t.sessions(selectSession+`WHERE id = +?`, id)
	if err != nil || len(found) == 0 {
		return protocol.Session{Over: true}, err
	}
	return protocol.Session{ID: found[0].name, Code: found[0].code, Over: found[0].reason != ""}, nil
}

// Blockers returns the sessions that have blocked a run.
func (t *tx) Blockers(r *run) ([]int64, error) { return r.incompatible.sessions(), nil }

// SetBlockers stores others.
func (t *tx) SetBlockers(r *run, sessions []int64) {
	r.incompatible = ""
	for _, id := range sessions {
		r.incompatible = r.incompatible.with(id)
	}
}

// block puts a run among the blocked ones of its route, and tells all who wait for that.
func (t *tx) block(r *run) error {
	if err := t.tellBlocked(r); err != nil {
		return err
	}
	t.leave(r)
	r.queueState = store.StateBlocked
	return t.save(r)
}

// tellBlocked tells all who wait for the route of a run that it was blocked, those in
// other processes by a number that they look at.
func (t *tx) tellBlocked(r *run) error {
	if err := t.exec(`UPDATE classes SET blocks = blocks + 1 WHERE id = +?`, r.route); err != nil {
		return err
	}
	times, err := t.number(`SELECT blocks FROM classes WHERE id = +?`, r.route)
	if err != nil {
		return err
	}
	route, err := t.routeName(r.route)
	if err != nil {
		return err
	}
	if t.notices.blocks == nil {
		t.notices.blocks = map[store.Route]int64{}
	}
	t.notices.blocks[route] = times
	return nil
}

// isIncompatible reports whether the code of a session is known not to fit.
func (c *conn) isIncompatible(m incompatible, s *session) (bool, error) {
	if m == "" {
		return false, nil
	}
	live, err := c.liveOf(m)
	return slices.ContainsFunc(live, func(l *session) bool { return l.code == s.code }), err
}

// liveIncompatible names the live sessions that have blocked a run.
func (c *conn) liveIncompatible(m incompatible) ([]store.SessionID, error) {
	live, err := c.liveOf(m)
	var all []store.SessionID
	for _, l := range live {
		all = append(all, l.name)
	}
	slices.Sort(all)
	return all, err
}

// unblock makes up to limit blocked runs of the routes ready that the session may try.
func (t *tx) unblock(routes []int64, by *session, limit int) error {
	blocked, err := t.number(`SELECT count(*) FROM (SELECT 1 FROM runs WHERE place = 4 LIMIT 1)`)
	if err != nil || blocked == 0 {
		return err
	}
	for _, route := range routes {
		m, found, err := t.nextIncompatible(`SELECT misfits FROM runs WHERE place = 4 AND class = +? ORDER BY misfits LIMIT 1`, route)
		for err == nil && found && limit > 0 {
			var unfit bool
			if unfit, err = t.isIncompatible(m, by); err == nil && !unfit {
				limit, err = t.unblockAll(route, m, limit)
			}
			if err != nil {
				break
			}
			m, found, err = t.nextIncompatible(`SELECT misfits FROM runs WHERE place = 4 AND class = +? AND misfits > +? ORDER BY misfits LIMIT 1`, route, string(m))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) nextIncompatible(query string, args ...any) (m incompatible, found bool, err error) {
	err = t.query(query, func(r row) error {
		m, found = incompatible(r.ColumnText(0)), true
		return nil
	}, args...)
	return m, found, err
}

// unblockAll makes runs of a route that the same sessions have blocked ready, and returns
// how many more may be.
func (t *tx) unblockAll(route int64, m incompatible, limit int) (int, error) {
	fitting, err := t.runs(selectRun+`WHERE r.place = 4 AND r.class = +? AND r.misfits = +? /*workable r.key*/ ORDER BY r.key LIMIT +?`, route, string(m), limit)
	if err != nil {
		return 0, err
	}
	for _, r := range fitting {
		if err := t.op.MakeReady(r); err != nil {
			return 0, writing(r, err)
		}
	}
	return limit - len(fitting), nil
}
