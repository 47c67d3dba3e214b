package redisstore

import (
	"sync"
	"time"
)

// ears keeps the ears of Waits that have ended for those that follow: an ear that
// has listened all the time knows what has happened since the last look.
//
// That holds because every wake, every block, every earlier due time and all mail is published by
// the action that brings it, and a look leaves no wake of the classes behind. Other
// classes than before were not listened for, and a due time that was no news to a Wait
// may be one to a Wait that knows only of later ones: then the next Wait looks.
type ears struct {
	mu   sync.Mutex
	kept map[string]*keptEar // by the sessions that wait
}

type keptEar struct {
	ear     *ear
	classes string
	next    int64 // the earliest due time that it was told of; 0: none
	timer   *time.Timer
}

// take returns the ear of whoever waits, nil if there is none, and whether it has
// listened for the same classes, and the earliest due time that it was told of.
func (e *ears) take(who, classes string) (ear *ear, informed bool, next int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.kept[who]
	if k == nil {
		return nil, false, 0
	}
	delete(e.kept, who)
	k.timer.Stop()
	return k.ear, k.classes == classes, k.next
}

// keep lets an ear go on listening, for a while.
func (e *ears) keep(who, classes string, ear *ear, next int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kept == nil {
		e.kept = map[string]*keptEar{}
	}
	if before := e.kept[who]; before != nil { // two waited at once
		before.timer.Stop()
		before.ear.close()
	}
	k := &keptEar{ear: ear, classes: classes, next: next}
	k.timer = time.AfterFunc(linger, func() { e.drop(who, k) })
	e.kept[who] = k
}

func (e *ears) drop(who string, k *keptEar) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kept[who] == k {
		delete(e.kept, who)
		k.ear.close()
	}
}

// close ends all of them.
func (e *ears) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for who, k := range e.kept {
		k.timer.Stop()
		delete(e.kept, who)
		k.ear.close()
	}
}
