package main

// reacting returns a mutant of the reducer of package runloop. The named tests of the same package
// must kill it.
func reacting(id, disabled, file, before, after string, tests ...string) Mutant {
	return reducing("engine/reducer/"+id, disabled, file, before, after, tests...).in("runtime/internal/runloop")
}

const randomInputs = "TestReact_KeepsItsInvariantsForRandomInputs"

// reducerMutants disable decisions of the reducer that depend on a rare order of its inputs.
var reducerMutants = []Mutant{
	reacting("deviated", "an attempt is started although its outcome cannot be recorded", "attempts.go",
		"if s.run.Err() != nil { // the outcome", "if false { // the outcome", "TestReact_NoAttemptStartsOnceTheCodeHasDeviatedFromItsLog", randomInputs),
	reacting("next-refused", "a run stays under a claim that is over although a later claim waits", "react.go",
		"case s.next != nil:\n\t\ts.lose(nil)", "case false:\n\t\ts.lose(nil)", "TestReact_AWaitingClaimIsTakenWhenTheCommitInFlightIsRefused"),
	reacting("next-lost", "a claim that waits is taken although its session has ended", "react.go",
		"s.next = nil // a claim", "// a claim", "TestReact_AWaitingClaimIsLostWithItsSession"),
	reacting("pending-unread", "a pending step times out before the items that were accepted in time are read", "proceed.go",
		"case s.readUntil.Before(due):", "case false:", randomInputs),
	reacting("held-lease", "an attempt is started although the lease is not alive", "attempts.go",
		"if !s.moment.Alive { // another", "if false { // another", randomInputs),
	reacting("cancel-early", "a running attempt is canceled before the reason is durable", "hook.go",
		"s.releases = append(s.releases, release{seq: s.run.State().Seq, cancel: op.Ref})", "if a := s.attempts.Get(op.Ref); a != nil {\n\t\ts.stop(a, s.cancelCause(op.Ref))\n\t}", randomInputs),
}
