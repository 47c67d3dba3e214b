package admin

import (
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

const (
	denialsFor  = 24 * time.Hour // is how long refusals of a principal are counted together
	denialsMost = 20             // is how many of them have an entry of their own
)

// denials bounds what of a journal is refusals: somebody who may do nothing could have it forget what others have done. The first
// refusals of a principal in a day have entries of their own; the others are counted by one entry, which is written again each
// time that their number has doubled. Each process counts its own.
type denials struct {
	mu    sync.Mutex
	began time.Time
	of    map[string]*refusedTo // by principal
}

// refusedTo counts the refusals of a principal.
type refusedTo struct {
	n  int
	id string // of the entry that counts
}

// keep reports whether an entry of a refusal is written. It makes it the one that counts if there were many before it.
func (r *denials) keep(e *JournalEntry, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil || now.Sub(r.began) >= denialsFor {
		r.began, r.of = now, map[string]*refusedTo{}
	}
	mine := r.of[e.Principal]
	if mine == nil {
		mine = &refusedTo{}
		r.of[e.Principal] = mine
	}
	mine.n++
	more := mine.n - denialsMost
	if more <= 0 {
		return true
	}
	if more == 1 {
		mine.id = store.NewJournalID(now)
	}
	if more&(more-1) != 0 {
		return false
	}
	*e = JournalEntry{ID: mine.id, Principal: e.Principal, Owner: e.Owner, Face: e.Face, Action: "refused", Detail: fmt.Sprintf("%d requests or more after the first %d of a day", more, denialsMost), Outcome: e.Outcome}
	return true
}
