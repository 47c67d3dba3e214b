// Package deploy keeps the record of deployments: the builds of workers, how new runs of pinned
// workflows are distributed over them, and which builds are retired.
//
// The record is one small entry of the store. Workers register their build in it with [Seen],
// operators change it with [Update], and clients read it with [Load] and choose the build of a new
// run with [State.Draw]. Which builds have live workers is not part of the record: the sessions of
// the store contain it.
package deploy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// State is the record of deployments. The zero value is the state of a store without a record.
type State struct {
	// Builds is sorted by First and then by ID.
	Builds []Build `json:"builds"`
}

// Build describes the workers of one build.
type Build struct {
	ID string `json:"id"`
	// First is the time at which the first worker of the build has registered it. Last is the time
	// of the last registration, which is up to SeenEvery old while workers are alive. Both are zero
	// if no worker has registered the build.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
	// Percent is the share of the new runs of pinned workflows. Either all builds have 0 percent, so
	// that no distribution is set, or the sum of all builds is 100.
	Percent int `json:"percent,omitempty"`
	// Retired is the time at which an operator has retired the build. It is zero if the build is in
	// use. To is the build that receives its pinned runs; it is empty if any build may receive them.
	Retired time.Time `json:"retired,omitzero"`
	To      string    `json:"to,omitempty"`
}

// MaxBuilds is the maximum number of builds in the record. If there are more, the builds without a
// share that were seen least recently are removed.
const MaxBuilds = 100

// SeenEvery is the interval at which live workers register their build again.
const SeenEvery = 10 * time.Minute

// MaxID is the maximum length of the ID of a build in bytes.
const MaxID = 64

// CheckID returns a *store.InvalidError if id is not a valid ID of a build.
func CheckID(id string) error {
	const what = "build"
	switch {
	case id == "":
		return &store.InvalidError{What: what, Value: id, Reason: fmt.Sprintf("is empty: want 1 to %d letters, digits or . _ - +", MaxID)}
	case len(id) > MaxID:
		return &store.InvalidError{What: what, Value: id[:MaxID], Reason: fmt.Sprintf("… has %d bytes, the limit is %d", len(id), MaxID)}
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-', c == '+':
		default:
			return &store.InvalidError{What: what, Value: id, Reason: "contains another character than letters, digits and . _ - +"}
		}
	}
	return nil
}

// Build returns the build with the ID, or nil if it is not in the record. The result is valid until
// the next call of Add.
func (s *State) Build(id string) *Build {
	for i := range s.Builds {
		if s.Builds[i].ID == id {
			return &s.Builds[i]
		}
	}
	return nil
}

// Add returns the build with the ID, and adds it if it is not in the record.
func (s *State) Add(id string) *Build {
	if s.Build(id) == nil {
		s.Builds = append(s.Builds, Build{ID: id})
	}
	return s.Build(id)
}

// Retired reports whether the build is retired.
func (s *State) Retired(id string) bool {
	b := s.Build(id)
	return b != nil && !b.Retired.IsZero()
}

// Draw returns the build that a new run of a pinned workflow is pinned to. It returns "" if the run
// is not pinned, because no build in use has live workers. live contains the builds with live
// workers that serve the route of the run. own is the build of the worker in the process of the
// caller, or "" if there is none.
//
// If a distribution is set, the build is determined by the ID of the run, and a build without live
// workers is replaced by one with live workers. Otherwise it is own, or the live build that was
// registered last.
func (s *State) Draw(run event.RunID, live []string, own string) string {
	serves := func(id string) bool { return slices.Contains(live, id) && !s.Retired(id) }
	if id := s.share(run, "", func(*Build) bool { return true }); serves(id) {
		return id
	}
	if id := s.share(run, "live", func(b *Build) bool { return serves(b.ID) }); id != "" {
		return id
	}
	if own != "" && !s.Retired(own) {
		return own
	}
	newest := ""
	for _, id := range live {
		if serves(id) && (newest == "" || s.compare(id, newest) > 0) {
			newest = id
		}
	}
	return newest
}

// share returns one of the builds that have a share and that may returns true for. It chooses by a
// hash of the run and of salt, in proportion to the shares. It returns "" if there is none.
func (s *State) share(run event.RunID, salt string, may func(*Build) bool) string {
	total := 0
	for i := range s.Builds {
		if b := &s.Builds[i]; may(b) {
			total += b.Percent
		}
	}
	if total <= 0 {
		return ""
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(string(run) + "\x00" + salt))
	at := int(mix(h.Sum64()) % uint64(total))
	for i := range s.Builds {
		if b := &s.Builds[i]; may(b) {
			if at -= b.Percent; at < 0 {
				return b.ID
			}
		}
	}
	return ""
}

// mix distributes the bits of a hash evenly, because the IDs of runs differ little.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// compare compares two builds by the time of their first registration. A build that no worker has
// registered belongs to an earlier release and is the oldest.
func (s *State) compare(a, b string) int {
	var first [2]time.Time
	for i, id := range [2]string{a, b} {
		if known := s.Build(id); known != nil {
			first[i] = known.First
		}
	}
	return cmp.Or(first[0].Compare(first[1]), cmp.Compare(a, b))
}

// recordKey is the key of the record in store.DeploySpace.
const recordKey = "record"

// Load returns the record of the store.
func Load(ctx context.Context, entries store.Entries) (State, error) {
	s, _, err := load(ctx, entries)
	return s, err
}

func load(ctx context.Context, entries store.Entries) (s State, value []byte, err error) {
	found, err := entries.Entries(ctx, store.EntryQuery{Space: store.DeploySpace, From: recordKey, Limit: 1})
	if err != nil {
		return State{}, nil, fmt.Errorf("read the record of deployments: %w", err)
	}
	if len(found) == 0 || found[0].Key != recordKey {
		return State{}, nil, nil
	}
	if err := json.Unmarshal(found[0].Value, &s); err != nil {
		return State{}, nil, fmt.Errorf("the record of deployments is damaged: %w: remove it with \"flowctl fsck --repair\", and then ramp and retire the builds again", err)
	}
	return s, found[0].Value, nil
}

// maxTries bounds how often Update is repeated because of other writers. Each failure means that
// another writer has succeeded.
const maxTries = 1000

// Update changes the record with f and returns the new record. If another process changes the record
// at the same time, Update calls f again, with the new record. If f returns an error, or changes
// nothing, Update writes nothing.
func Update(ctx context.Context, entries store.Entries, f func(*State) error) (State, error) {
	for range maxTries {
		s, old, err := load(ctx, entries)
		if err != nil {
			return State{}, err
		}
		if err := f(&s); err != nil {
			return State{}, err
		}
		s.tidy()
		value, err := json.Marshal(&s)
		if err != nil {
			return State{}, fmt.Errorf("write the record of deployments: %w", err)
		}
		if string(value) == string(old) {
			return s, nil
		}
		err = entries.WriteEntry(ctx, store.EntryWrite{Entry: store.Entry{Space: store.DeploySpace, Key: recordKey, Value: value}, Match: true, Old: old})
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, store.ErrEntryChanged) {
			return State{}, fmt.Errorf("write the record of deployments: %w", err)
		}
	}
	return State{}, fmt.Errorf("write the record of deployments: %w in each of %s attempts", store.ErrEntryChanged, strconv.Itoa(maxTries))
}

// tidy sorts the builds and removes those that exceed MaxBuilds.
func (s *State) tidy() {
	for len(s.Builds) > MaxBuilds {
		oldest := -1
		for i := range s.Builds {
			if b := &s.Builds[i]; b.Percent == 0 && (oldest < 0 || b.Last.Before(s.Builds[oldest].Last)) {
				oldest = i
			}
		}
		if oldest < 0 {
			break // a record that Update has not written: all of more than 100 builds have a share
		}
		s.Builds = slices.Delete(s.Builds, oldest, oldest+1)
	}
	slices.SortFunc(s.Builds, func(a, b Build) int { return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.ID, b.ID)) })
}

// Seen registers the build of a live worker, and returns the record. It writes only if no worker of
// the build has registered it for SeenEvery.
func Seen(ctx context.Context, entries store.Entries, build string) (State, error) {
	now := entries.Clock().Now().UTC().Truncate(time.Millisecond)
	return Update(ctx, entries, func(s *State) error {
		b := s.Add(build)
		if b.First.IsZero() {
			b.First = now
		}
		if now.Sub(b.Last) >= SeenEvery {
			b.Last = now
		}
		return nil
	})
}
