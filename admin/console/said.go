package console

import (
	"sync"

	"github.com/flowgen/flowgen/admin"
)

const (
	groupsKept   = 4000 // at about 1 KB each
	groupsAtOnce = 20   // are asked for while a page is drawn; the others when it is drawn again
)

// groups keeps what has happened to the runs of groups of failures. It never changes: the id of a group is made of it. Each
// principal has its own.
type groups struct {
	mu   sync.Mutex
	said map[groupKey]string
}

type groupKey struct {
	group string
	who   admin.Principal
}

func newGroups() *groups { return &groups{said: map[groupKey]string{}} }

func (g *groups) get(key groupKey) (string, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	text, ok := g.said[key]
	return text, ok
}

func (g *groups) keep(key groupKey, text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.said) >= groupsKept {
		clear(g.said)
	}
	g.said[key] = text
}

// said returns what has happened to runs, by their groups. There is none of a group that the reader may not see.
func (q *request) said(runs []admin.Run) map[string]string {
	all := map[string]string{}
	asked := 0
	for i := range runs {
		key := groupKey{runs[i].Group, q.who}
		if _, known := all[key.group]; known || key.group == "" {
			continue
		}
		text, known := q.h.groups.get(key)
		if !known && asked < groupsAtOnce {
			asked++
			page, err := q.service.Failures(q.ctx(), admin.FailureFilter{Group: key.group, Limit: 1})
			if err == nil && len(page.Groups) == 1 {
				text, known = saidOf(&page.Groups[0]), true
				q.h.groups.keep(key, text)
			}
		}
		if known {
			all[key.group] = text
		}
	}
	return all
}

func saidOf(g *admin.FailureGroup) string {
	if g.Step != "" {
		return cut(200, g.Step+": "+g.Message)
	}
	return cut(200, g.Message)
}
