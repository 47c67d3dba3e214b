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

// ErrLimitNotFound means that no worker has declared a limit of that name to the store. Limits per
// worker are not declared to the store.
var ErrLimitNotFound = errors.New("workflow: limit not found")

// NamedLimit is a part of a limit that is identified only by name, for programs that do not link
// the code that declares the limit.
type NamedLimit struct {
	l    Limits
	part limitPart
}

// Named returns a part of a limit by name and key. An empty key addresses the limit as a whole,
// which applies to all keys without their own configuration. Named reads from the store in which
// partitions the limit is kept. Errors: [ErrLimitNotFound], store.ErrNoLimits.
//
// A limit that is spread by its keys is declared in every partition, any other limit in a single
// one: see limit.Config.Spread. A worker declares a limit in each partition when it begins to serve
// the partition. Until a spread limit is declared in a second partition, Named treats it as not
// spread.
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

// declaredIn reports whether a partition has a configuration for the limit as a whole.
func declaredIn(ctx context.Context, limiter store.Limiter, partition int, name string) (bool, error) {
	// The limit as a whole has the smallest key, so it is the first entry of its name.
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

// Set is like [Limits.Set].
func (n NamedLimit) Set(ctx context.Context, c limit.Config) error {
	return n.l.set(ctx, n.part, settingTo(c))
}

// Reset is like [Limits.Reset].
func (n NamedLimit) Reset(ctx context.Context) error {
	return n.l.set(ctx, n.part, resetting)
}

// Pause is like [Limits.Pause].
func (n NamedLimit) Pause(ctx context.Context) error { return n.l.set(ctx, n.part, pausing) }

// Resume is like [Limits.Resume].
func (n NamedLimit) Resume(ctx context.Context) error { return n.l.set(ctx, n.part, resuming) }
