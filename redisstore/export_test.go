package redisstore

import (
	"context"

	"github.com/flowgen/flowgen/runtime/store"
)

// FleetWithin is like Fleet, with a budget for each partition.
func (s *Store) FleetWithin(ctx context.Context, budget int) (store.Fleet, error) {
	return s.fleet(ctx, budget)
}

// HeaderWithFrames returns a function that sets the number of frames in a packed header.
func HeaderWithFrames(n uint64) func(packed string) string {
	return func(packed string) string {
		h := unpackHeader(packed)
		h.frames = n
		return h.pack()
	}
}

// HeaderInState returns a function that sets the queue state in a packed header.
func HeaderInState(p store.QueueState) func(packed string) string {
	return func(packed string) string {
		h := unpackHeader(packed)
		h.queueState = p
		return h.pack()
	}
}

// Prefix returns the prefix of the keys of a store.
func (s *Store) Prefix() string { return s.cfg.Prefix }

// BatchEverything makes the store execute single operations by script batch, like several.
func (s *Store) BatchEverything() { s.fewest = 1 }

// ScriptsOf returns the names of the scripts that an EVALSHA command executes: the operations of
// script batch, or the script.
func ScriptsOf(args []any) (names []string) {
	if args[1] != &scriptBatch.sha && args[1] != &scriptBatch.text {
		return []string{ScriptOf(args[1])}
	}
	for i := 3 + args[2].(int); i < len(args); { // behind the declared keys
		form := *args[i].(*bytesArg)
		names = append(names, map[byte]string{'a': "append", 'f': "finish", 'c': "create"}[form[0]])
		i += 1 + int(form[1]) + int(form[2])
	}
	return names
}

// ScriptOf returns the name of the script whose EVALSHA command has the given first argument.
func ScriptOf(argument any) string {
	for _, s := range []*script{
		scriptCreate, scriptOpenSession, scriptHeartbeat, scriptReconcile, scriptServes, scriptFleet, scriptListReady, scriptCloseSession, scriptSetSessionData, scriptSessionData, scriptClaim, scriptClaimRun,
		scriptDue, scriptCommit, scriptRelease, scriptDeliver, scriptProbe, scriptWatch, scriptStepData, scriptPurge, scriptDelete,
		scriptOutbox, scriptMark, scriptConfirm, scriptAppend, scriptFinish,
		scriptRebuild, scriptForget, scriptReplace, scriptPublish, scriptStream,
	} {
		if argument == &s.sha || argument == &s.text {
			return s.name
		}
	}
	return ""
}
