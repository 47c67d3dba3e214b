package main

import "regexp"

// phrase is a phrase that comments must not contain.
type phrase struct {
	pattern *regexp.Regexp
	advice  string
}

// phrases contains patterns that are matched within a line, ignoring case.
var phrases = []phrase{
	say(`(is|are) what`, "let the noun do something: not “X is what Y does” but “Y does X”"),
	say(`(is|are) to [a-z]+`, "write must, will, or the verb alone"),
	say(`(come|came|comes|wait|waits|queued|queues|begins?|starts?|ends?|late) behind`, "write after, for time"),
	say(`also if`, "write even if, or if … also"),
	say(`birth|born`, "write local start, or create claimed"),
	say(`heirs?`, "write continuation"),
	say(`kick|poke|bell|tell-tale`, "write notify"),
	say(`misfits?`, "write incompatible"),
	say(`conductors?`, "write scheduler"),
	say(`carr(y|ies|ied) over`, "write deliver"),
	say(`examinations?`, "write scan"),
	say(`flaws?`, "write defect"),
	say(`hubs?`, "write notifier"),
	say(`suspects?`, "write quarantined"),
	say(`lined up`, "write queued"),
	say(`mail`, "write items, or unread items"),
	say(`linger(s|ed|ing)?`, "write kept for"),
	say(`lends?|lent`, "write reuse"),
}

// say returns a phrase whose pattern matches only whole words.
func say(pattern, advice string) phrase {
	return phrase{regexp.MustCompile(`(?i)\b(` + pattern + `)\b`), advice}
}
