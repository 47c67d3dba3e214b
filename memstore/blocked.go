package memstore

import (
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
)

// tellBlocked wakes the waiting sessions that serve the route of a blocked run and may try it.
func (p *partition) tellBlocked(r *run) {
	p.waiters.WakeAll(r.route.Route, func(id store.SessionID) bool {
		l := p.sessions[id]
		return l != nil && !p.cannotReplay(r, l)
	})
}

// cannotReplay reports whether the code of a session is known not to fit the run.
func (p *partition) cannotReplay(r *run, s *session) bool {
	return r.extra != nil && slices.ContainsFunc(r.extra.blockers, func(l *session) bool { return l.code == s.code && p.isLive(l) })
}

// blockers returns the live sessions whose code could not replay the run.
func (p *partition) blockers(r *run) []store.SessionID {
	var all []store.SessionID
	if r.extra != nil {
		for _, l := range r.extra.blockers {
			if p.isLive(l) {
				all = append(all, l.id)
			}
		}
	}
	slices.Sort(all)
	return all
}

// isLive reports whether a session exists and its recovery has not begun.
func (p *partition) isLive(l *session) bool { return p.sessions[l.id] == l && !l.recovering }

// unblock makes up to limit blocked runs of the routes ready that the session may try.
func (p *partition) unblock(routes []*route, by *session, limit int) {
	for _, c := range routes {
		for r := c.blocked.first; r != nil && limit > 0; {
			following := r.after
			if may, _ := p.op.MayTry(r, by); may { // a Tx in memory does not fail
				_ = p.op.MakeReady(r)
				limit--
			}
			r = following
		}
	}
}
