package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/flowgen/flowgen/redisstore/doctor"
	"github.com/flowgen/flowgen/runtime/store"
)

var _ store.Doctor = (*Store)(nil)

// Examine examines the server, the master that Sentinels monitor, or all masters of a cluster. It
// reports problems of their configuration, of the permissions of the user, and of the safety of the
// data. It changes no data, but adds the scripts to the caches of the servers. It works before the
// first use of the store, and needs no permission beyond the permissions of the store. If a setting
// cannot be read, the report contains a warning. docs/use/redis.md lists the checks.
//
// A server that does not answer is reported as a finding, and the other servers are examined.
// Examine returns an error if a cluster does not name its masters.
func (s *Store) Examine(ctx context.Context) (store.Report, error) {
	report, err := s.examineServers(ctx)
	if err != nil {
		return store.Report{}, fmt.Errorf("examine the store: %w", err)
	}
	return report, nil
}

func (s *Store) examineServers(ctx context.Context) (store.Report, error) {
	if err := s.enter(ctx); err != nil {
		return store.Report{}, err
	}
	t := doctor.Target{
		Client: s.client, Prefix: s.cfg.Prefix, WaitReplicas: s.cfg.WaitReplicas, Scripts: scripts(),
		Mark: s.mark(), JudgeMark: s.judgeMark, Hints: hints,
	}
	for _, p := range s.parts {
		t.Partitions = append(t.Partitions, &doctor.Partition{
			Number: p.number, Tag: p.hash, Never: p.never(), Format: p.format(), Routes: p.routes(), Leases: p.leases(), Hints: p.hints(),
		})
	}
	report, err := doctor.Examine(ctx, &t)
	if err != nil {
		return report, s.explain(ctx, err)
	}
	return report, s.enter(ctx)
}

// judgeMark returns the reason why this store must not use a database with the given mark, and the
// fix. The fix is empty if the store needs another prefix.
func (s *Store) judgeMark(mark string) (fix string, err error) {
	err = s.compareMark(mark)
	if e, ok := errors.AsType[*PartitionsError](err); ok {
		fix = fmt.Sprintf("Open the store with partitions=%d; there is no CONFIG line for it.", e.Want)
	}
	if e, ok := errors.AsType[*store.VersionError](err); ok {
		fix = strings.ToUpper(e.Fix()[:1]) + e.Fix()[1:] + "; there is no CONFIG line for it."
	}
	return fix, err
}

// scripts returns all scripts of this release.
var scripts = sync.OnceValue(func() []doctor.Script {
	files, err := fs.Glob(sources, "lua/*.lua")
	if err != nil {
		panic(fmt.Sprintf("redisstore: %v", err)) // the pattern is a constant, so this is a bug
	}
	var all []doctor.Script
	for _, file := range files {
		s := newScript(strings.TrimSuffix(strings.TrimPrefix(file, "lua/"), ".lua")).ready()
		all = append(all, doctor.Script{Name: s.name, Text: s.text, SHA: s.sha})
	}
	return all
})
