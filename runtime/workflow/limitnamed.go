package workflow

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/store"
)

// ErrLimitNotFound says that no worker has declared a limit of that name to the store. One that is each
// worker's own is not declared to it.
var ErrLimitNotFound = errors.New("workflow: limit not found")

// NamedLimit is a part of a limit that is known by its name only, as to programs that do not link the
// code which declares it.
type NamedLimit struct {
	l    Limits
	part limitPart
}

// Named returns a part of a limit by its name and key; an empty key: the limit as a whole, which holds for
// all keys that have no configuration of their own. Where it is kept it learns from the store. Errors:
// [ErrLimitNotFound], store.ErrNoLimits.
//
// A limit that is spread by its keys is declared in every partition, any other in the one of all limits: see
// limit.Config.Spread. A worker declares it in each partition when it begins to work there, so that before the first
// worker has done so in a second one, a limit that is spread is taken for one that is not.
func (l Limits) Named(ctx context.Context, name, key string) (NamedLimit, error) {
	limiter, err := l.limiter()
	if err != nil {
		return NamedLimit{}, err
	}
	n := NamedLimit{l: l, part: limitPart{id: store.LimitID{Name: name, Key: key}}}
	if err := n.part.id.Check(); err != nil {
		return n, fmt.Errorf("find limit: %w", err)
	}
	d := permits.Declared{Name: name}
	home := int(d.Slot("")) % l.c.store.Partitions()
	found := false
	for _, p := range l.all() {
		there, err := declaredIn(ctx, limiter, p, name)
		if err != nil {
			return n, fmt.Errorf("find limit %s: %w", n.part.id, err)
		}
		found = found || there
		d.Spread = d.Spread || there && p != home
	}
	if !found {
		return n, fmt.Errorf("limit %q: %w", name, ErrLimitNotFound)
	}
	if d.Spread && key == "" {
		n.part.partitions = l.all()
	} else {
		n.part.partitions = []int{int(d.Slot(key)) % l.c.store.Partitions()}
	}
	return n, nil
}

// declaredIn reports whether a partition has a configuration of a limit as a whole.
func declaredIn(ctx context.Context, limiter store.Limiter, partition int, name string) (bool, error) {
	// The whole is the first part of a name: its key is the least.
	_, last := utf8.DecodeLastRuneInString(name)
	page, err := limiter.Limits(ctx, partition, store.LimitID{Name: name[:len(name)-last]}, limitPage)
	for err == nil && len(page) > 0 {
		for _, s := range page {
			if s.Name == name && s.Key == "" {
				return s.Default || s.Set, nil
			}
			if s.Name > name {
				return false, nil
			}
		}
		page, err = limiter.Limits(ctx, partition, page[len(page)-1].LimitID, limitPage)
	}
	return false, err
}

// Set is as [Limits.Set].
func (n NamedLimit) Set(ctx context.Context, c limit.Config) error {
	return n.l.set(ctx, n.part, settingTo(c))
}

// Reset is as [Limits.Reset].
func (n NamedLimit) Reset(ctx context.Context) error {
	return n.l.set(ctx, n.part, resetting)
}

// Pause is as [Limits.Pause].
func (n NamedLimit) Pause(ctx context.Context) error { return n.l.set(ctx, n.part, pausing) }

// Resume is as [Limits.Resume].
func (n NamedLimit) Resume(ctx context.Context) error { return n.l.set(ctx, n.part, resuming) }
