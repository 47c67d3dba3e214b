package compat

// Row is a kind of change in the table.
type Row struct {
	ID     string
	Change string // description of the kind of change
	Class  Class  // the worst class that such a change can have
	Reason string // the reason for the class
	WayOut string // how to make the change without blocking runs; empty if impossible
}

// Rows contains every kind of change that is classified, in the order of docs/use/breaking.md.
var Rows = []Row{
	{"step.body", "a step's body, whether it is left to others by step.Later, file, Go name with name=, or whether it is a method; as=; retries … timeout, fatal, nonidempotent; another queue, other limits", Safe, "not compared", ""},
	{"step.gone", "a step removed, or given another stored name, while it is called", Breaks, "logs hold the name", "keep the stored name with name=, or the step until no such run is left"},
	{"param.renamed", "a step's parameter renamed", Breaks, "arguments are stored by name", "keep the stored name with wire=parameter:name"},
	{"param.removed", "a step's parameter removed, or parameters in another order", Safe, "records are compared in today's type", ""},
	{"param.added", "a step's parameter added: with zero in each call it is safe", Breaks, "recorded calls have no value for it", "call it with the zero value for old runs, by workflow.Version"},
	{"type.same", "another Go type of the same JSON (int → int64, T → *T, slice → array)", Safe, "records are JSON", ""},
	{"type.float", "a type whose JSON may fit (int → float64)", Care, "whole numbers fit", ""},
	{"type.other", "a type of other JSON (int → string)", Breaks, "the record cannot be read", "add another parameter or field, and keep the old one"},
	{"field.removed", "a field removed; a tag in other case; omitempty", Safe, "records are compared in today's type", ""},
	{"field.added", "a field of an argument added", Care, "it fits while it is empty", ""},
	{"field.renamed", "a field or its tag renamed", Breaks, "fields are stored by name", "keep the tag"},
	{"type.custom", "a type starts or ceases to store itself, or does so in another way", Care, "what it writes is not known", ""},
	{"key.declared", "key= of a step added or removed", Breaks, "the key is part of the record", "make it another step"},
	{"key.text", "key= of another text", Care, "it fits if the keys are equal", ""},
	{"queue.run", "queue= of a step added or removed", Safe, "a call that is in a log stays as it was executed, in place or in a run of its own", ""},
	{"uses.run", "uses= of a step without queue= added or removed", Safe, "a call that is in a log stays as it was executed, in place or in a run of its own", ""},
	{"result.field", "a field of a result added or removed", Safe, "missing ones are zero", ""},
	{"result.retyped", "a result of other JSON", Breaks, "recorded results are read", "make it another step"},
	{"result.none", "a result where there was none, or none any more", Care, "recorded calls give the zero value", ""},

	{"op.last", "an operation added behind all others", Care, "for runs in front of it", ""},
	{"op.added", "an operation added in front of others", Breaks, "runs past it have no record of it", "call it under workflow.Version"},
	{"op.removed", "an operation removed or replaced", Breaks, "runs past it have a record of it", "keep it for old runs, by workflow.Version"},
	{"op.swapped", "operations swapped", Breaks, "records are in order", "keep the order for old runs, by workflow.Version"},
	{"op.conditional", "an operation added or removed where not every run comes: if, switch, loop, the way of an error", Care, "which runs came there", "change it under workflow.Version"},
	{"version.new", "an operation added under a new Version", Safe, "runs of before have version 0", ""},
	{"branch.wrapped", "an operation put into Go, a loop made Map or the other way round, branches swapped", Breaks, "the branch is part of the key", "change it under workflow.Version"},
	{"map.settled", "ForEach ↔ MapSettled", Care, "the keys are the same; a failure ends the others or not", ""},
	{"helper", "a helper extracted or put in place; Child ↔ StartChild and Get", Safe, "the keys are the same", ""},
	{"map.limit", "Limit of a Map", Care, "it fits above the number of items", ""},
	{"map.items", "the items of a Map", Care, "it fits if they are the same", ""},
	{"loop.turns", "the turns of a loop", Care, "it fits for the turns that both have", ""},

	{"arg.constant", "another constant argument; nil ↔ an empty slice", Breaks, "arguments are compared by value", "change it under workflow.Version"},
	{"arg.other", "another expression as argument, or another function in it", Care, "it fits if the value is the same", ""},
	{"cond", "another condition", Care, "which runs it concerns", ""},
	{"draw", "a draw of Rand or UUID in front of others", Care, "later ones give other numbers", ""},

	{"sleep.length", "how long a Sleep or a limit takes, SleepUntil for Sleep: between constants it is safe", Care, "due times are recorded; a sleep of no time makes no record", ""},
	{"sleep.zero", "a Sleep that becomes or was zero", Breaks, "a sleep of no time makes no record", "change it under workflow.Version"},
	{"receive.limit", "the limit of a Receive; WithCancel; Detached; options but queue and key", Safe, "not compared", ""},
	{"options.key", "option Key of a step", Breaks, "the key is part of the record", "change it under workflow.Version"},
	{"options.queue", "option Queue of a step", Safe, "a call that is in a log stays as it was executed, in place or in a run of its own", ""},
	{"timeout", "WithTimeout added or removed", Breaks, "it makes a timer", "change it under workflow.Version"},
	{"receive.try", "Receive ↔ TryReceive", Breaks, "only one of them waits", "change it under workflow.Version"},
	{"select.cases", "the cases of a Select", Breaks, "it records what it waits for", "change it under workflow.Version"},
	{"gather", "All, Settled, First and Any exchanged", Care, "it goes on earlier or later", ""},

	{"machine.start", "start= of a machine", Breaks, "logs begin with the step of before", "keep the step that it starts with, and let that lead to the new one"},
	{"machine.next", "a step added to a machine; where a step leads, what it waits for", Safe, "where a step has led is recorded", ""},
	{"machine.catch", "catch= of a machine's step added, removed or of another step", Care, "whether the step has failed", ""},
	{"machine.max", "max= of a machine", Care, "it fits for runs that have begun fewer steps", ""},
	{"graph.step", "a step added to a graph: behind all others it is care", Breaks, "runs in which it would have begun have no record of it", "add it to another graph, and keep this one for old runs"},
	{"graph.order", "the order of a graph's steps in the source", Care, "steps that could begin at the same time begin in that order", ""},
	{"graph.needs", "what a step of a graph needs; after=", Care, "it fits if the step began when all of that had ended", ""},
	{"graph.each", "each= of a graph's step added, removed or of another step", Breaks, "the element is part of the key", "make it another step of another graph"},
	{"graph.if", "if= of a graph's step added, removed or of another method", Care, "whether it holds", ""},
	{"graph.onfail", "onfail= of a graph or of a step", Care, "whether a step has failed", ""},

	{"declared.renamed", "a topic, hook, value, stream or ask renamed", Breaks, "logs and senders have the name", "keep the name, which need not be that of the variable"},
	{"declared.type", "its type", Care, "messages that were not read, and readers", ""},
	{"effect", "Set, Write, Open, Dispose, Answer, SendFrom, Record, StatusOf, GetFrom, WaitFrom, ReadFrom added or removed", Breaks, "they make records", "change it under workflow.Version"},
	{"read.kind", "GetFrom ↔ WaitFrom", Care, "it fits if the value was set", ""},
	{"value.set", "another constant set, sent or answered", Breaks, "it is compared by value", "change it under workflow.Version"},
	{"hook.token", "the token of a hook", Breaks, "it is compared by value", "change it under workflow.Version"},
	{"chunk", "another chunk written to a stream; another function of Record", Safe, "not compared", ""},
	{"op.quiet", "TryReceive, Handle, Compensate, a deferred step added", Care, "no record until it matters", ""},
	{"child.workflow", "another child workflow", Breaks, "the record has its name", "change it under workflow.Version"},
	{"child.options", "id, tags, close of a child", Safe, "not compared", ""},

	{"version.up", "a Version counted up, its ways kept", Safe, "runs have the version that they recorded", ""},
	{"version.gone", "a call of Version removed, or its change renamed", Breaks, "logs hold the version", "keep the call"},
	{"version.way", "a way of a Version changed or gone", Care, "whether runs of it are left", "count them with client.Count"},
	{"version.least", "AtLeast", Care, "whether runs of lesser versions are left", "count them with client.Count"},

	{"workflow.gone", "a workflow removed, or with another stored name; //flow:package name=", Breaks, "its runs are not claimed", "keep the stored name with name=, or the workflow until no run is left"},
	{"input.renamed", "an input renamed", Breaks, "inputs are stored by name", "keep the stored name with wire=parameter:name"},
	{"input.removed", "an input removed", Care, "what it decided", ""},
	{"input.added", "an input added", Safe, "it is zero for runs of before", ""},
	{"workflow.result", "the result of a workflow; ContinueAsNew elsewhere", Care, "who reads it", ""},
	{"error", "the stored name or fields of an error", Care, "who matches it", ""},
	{"workflow.policy", "queue, timeout, retention, priority, fair, startwithin, singleton, debounce, uses, schedule, rerun, pin of a workflow; another batch; fewer children", Safe, "for new runs; rerun for all that fail", ""},
	{"workflow.children", "children= of a workflow raised", Care, "which runs were refused a child, and went on", "raise it in another workflow, or where no refusal is survived"},
	{"workflow.batch", "batch= of a workflow added or removed", Breaks, "the stored input is a list or is not", "make it another workflow"},
}

// wayOut returns how to make a change of the row id without blocking runs.
func wayOut(id string, class Class) string {
	for _, r := range Rows {
		if r.ID == id {
			if class == Care && r.WayOut == "" {
				return r.Reason + ": check with flowgen replay"
			}
			return r.WayOut
		}
	}
	panic("compat: no row " + id)
}
