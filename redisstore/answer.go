package redisstore

// The first words of the answers of scripts: results, and the reasons for which a script refuses a
// request. This is the only list of these words: decoders use the constants, and a test compares
// the scripts with them.
const (
	answerOK       = "ok"
	answerAccepted = "accepted" // an item was accepted, now or before
	answerCreated  = "created"  // a run was created and waits for permits
	answerTaken    = "taken"    // another session has taken the notification that a claim follows
	answerMoved    = "moved"    // a repair has read data that has changed since

	// Reasons about the run.
	refusedFenced     = "fenced"      // the fence is not that of the run
	refusedConflict   = "conflict"    // the commit does not fit the log, the inbox or the chain of the run
	refusedWorkflowID = "workflow id" // the run has another workflow ID
	refusedUnread     = "unread"      // the inbox is not empty
	refusedUnknown    = "unknown"     // the run does not exist
	refusedEnded      = "ended"       // the run has ended
	refusedNotEnded   = "not ended"   // the run has not ended
	refusedOwned      = "owned"       // another session owns the run
	refusedQueued     = "queued"      // the run waits behind another run or for a permit
	refusedClosed     = "closed"      // the stream is closed

	// Reasons about a start.
	refusedStale    = "stale"     // the deadline of the request has passed
	refusedLater    = "later"     // the run is closing, or cannot be owned at once
	refusedExisting = "existing"  // the workflow ID has an active run, which is the answer
	refusedActive   = "active"    // the workflow ID has an active run
	refusedFinished = "refused"   // the workflow ID has an ended run
	refusedTooHeavy = "too heavy" // a use exceeds the capacity of its limit
	refusedFull     = "full"      // too many runs wait for a limit, or a value is too large for its space

	// Reasons about a session or an entry.
	refusedExpired = "expired" // the session has ended or is being recovered
	refusedChanged = "changed" // the entry has another version
	refusedNone    = "none"    // the entry does not exist

	// Reasons of a rebuild.
	refusedThere   = "there"
	refusedGoesOn  = "goes on"
	refusedOther   = "other"
	refusedHidden  = "hidden"
	refusedNoChain = "no chain"
	refusedEnds    = "ends"
)
