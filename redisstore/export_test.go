package redisstore

import "github.com/flowgen/flowgen/runtime/store"

// HeadWithFrames changes the number of frames that a head has.
func HeadWithFrames(n uint64) func(packed string) string {
	return func(packed string) string {
		h := unpackHead(packed)
		h.frames = n
		return h.pack()
	}
}

// HeadInPlace changes the place that a head says.
func HeadInPlace(p store.QueueState) func(packed string) string {
	return func(packed string) string {
		h := unpackHead(packed)
		h.place = p
		return h.pack()
	}
}

// Prefix returns the prefix of the keys of a store.
func (s *Store) Prefix() string { return s.cfg.Prefix }

// ScriptOf returns the name of a script by the first argument of its command.
func ScriptOf(argument any) string {
	for _, s := range []*script{
		scriptCreate, scriptOpenSession, scriptHeartbeat, scriptReconcile, scriptServes, scriptCloseSession, scriptClaim, scriptClaimRun,
		scriptDue, scriptCommit, scriptRelease, scriptDeliver, scriptLook, scriptWatch, scriptNote, scriptPurge, scriptDelete,
		scriptOutbox, scriptMark, scriptConfirm, scriptAppend, scriptFinish,
		scriptRepairRun, scriptRepairLinks, scriptRepairName, scriptForget, scriptReplace, scriptPublish, scriptStream,
	} {
		if argument == &s.sha || argument == &s.text {
			return s.name
		}
	}
	return ""
}
