package sqlitestore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/runtime/store"
)

// misfits are the numbers of the sessions that have blocked a run, in the order in which
// they did, each with a space before it. As the text of a column it groups the blocked
// runs of a class: a claim looks once at each text, however many runs have it. There are
// few, because the numbers of sessions that are over go with the next block, and others
// are of different code.
type misfits string

func (m misfits) with(session int64) misfits { return m + misfits(fmt.Sprint(" ", session)) }

// liveOf returns those sessions that nobody has begun to recover.
func (c *conn) liveOf(m misfits) ([]*session, error) {
	var live []*session
	for _, number := range strings.Fields(string(m)) {
		id, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			continue // no session has it
		}
		l, err := c.sessions(selectSession+`WHERE id = +? AND reason IS NULL`, id)
		if err != nil {
			return nil, err
		}
		live = append(live, l...)
	}
	return live, nil
}

// misfit reports whether the code of a session is known not to fit.
func (c *conn) misfit(m misfits, s *session) (bool, error) {
	if m == "" {
		return false, nil
	}
	live, err := c.liveOf(m)
	return slices.ContainsFunc(live, func(l *session) bool { return l.code == s.code }), err
}

// liveMisfits names the live sessions that have blocked a run.
func (c *conn) liveMisfits(m misfits) ([]store.SessionID, error) {
	live, err := c.liveOf(m)
	var all []store.SessionID
	for _, l := range live {
		all = append(all, l.name)
	}
	slices.Sort(all)
	return all, err
}

// note adds the owner of a run to the sessions that have blocked it, and forgets those
// that are over, or have the same code.
func (t *tx) note(r *run) error {
	owner, err := t.sessions(selectSession+`WHERE id = +?`, r.owner)
	if err != nil || len(owner) == 0 {
		return err
	}
	live, err := t.liveOf(r.misfits)
	r.misfits = ""
	for _, l := range live {
		if l.code != owner[0].code {
			r.misfits = r.misfits.with(l.id)
		}
	}
	r.misfits = r.misfits.with(r.owner)
	return err
}

// block puts a run among the blocked ones of its class, and tells all who wait for that.
func (t *tx) block(r *run) error {
	if err := t.exec(`UPDATE classes SET blocks = blocks + 1 WHERE id = +?`, r.class); err != nil {
		return err
	}
	times, err := t.number(`SELECT blocks FROM classes WHERE id = +?`, r.class)
	if err != nil {
		return err
	}
	class, err := t.className(r.class)
	if err != nil {
		return err
	}
	if t.news.blocks == nil {
		t.news.blocks = map[store.Class]int64{}
	}
	t.news.blocks[class] = times
	t.leave(r)
	r.place = store.PlaceBlocked
	return t.save(r)
}

// unblock makes up to limit blocked runs of the classes ready that the session may try.
func (t *tx) unblock(classes []int64, by *session, limit int) error {
	blocked, err := t.number(`SELECT count(*) FROM (SELECT 1 FROM runs WHERE place = 4 LIMIT 1)`)
	if err != nil || blocked == 0 {
		return err
	}
	for _, class := range classes {
		m, found, err := t.nextMisfits(`SELECT misfits FROM runs WHERE place = 4 AND class = +? ORDER BY misfits LIMIT 1`, class)
		for err == nil && found && limit > 0 {
			var misfit bool
			if misfit, err = t.misfit(m, by); err == nil && !misfit {
				limit, err = t.unblockAll(class, m, limit)
			}
			if err != nil {
				break
			}
			m, found, err = t.nextMisfits(`SELECT misfits FROM runs WHERE place = 4 AND class = +? AND misfits > +? ORDER BY misfits LIMIT 1`, class, string(m))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) nextMisfits(query string, args ...any) (m misfits, found bool, err error) {
	err = t.query(query, func(r row) error {
		m, found = misfits(r.ColumnText(0)), true
		return nil
	}, args...)
	return m, found, err
}

// unblockAll makes runs of a class that the same sessions have blocked ready, and returns
// how many more may be.
func (t *tx) unblockAll(class int64, m misfits, limit int) (int, error) {
	fitting, err := t.runs(selectRun+`WHERE r.place = 4 AND r.class = +? AND r.misfits = +? ORDER BY r.key LIMIT +?`, class, string(m), limit)
	if err != nil {
		return 0, err
	}
	for _, r := range fitting {
		if err := t.makeReady(r); err != nil {
			return 0, err
		}
	}
	return limit - len(fitting), nil
}
