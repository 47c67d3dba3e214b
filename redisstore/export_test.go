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
