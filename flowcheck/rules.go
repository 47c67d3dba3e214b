package flowcheck

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// A rule contains the texts for the reports of one rule.
type rule struct {
	name   Rule
	does   string            // text after the name of the operation, such as "reads the wall clock, …"
	mend   string            // suggested fix, such as "use workflow.Now, …"
	of     map[string]string // text to use instead of does and mend, by operation
	advice bool              // the rule is advisory and applies only on request
}

// rules contains all rules in the order of the documentation.
var rules = []*rule{
	&clockRule, &randomRule, &ioRule, &envRule, &logRule, &goroutineRule, &channelRule, &lockRule, &globalRule,
	&mapOrderRule, &contextRule, &rawRule, &branchRule, &recordRule, &captureRule, &droppedRule, &keyRule, &versionRule,
	&caseRule, &spinRule, &deafRule, &sleepRule, &sentinelRule, &exitRule, &argumentRule, &twiceRule,
	&endlessRule, &cleanupRule, &undoRule, &rearmRule, &mixedRule, &goStepRule,
	&ignoreRule,
}

// checks contains the checks of a unit that consider more than a single operation.
var checks = []func(*packagePass, *unit){
	checkMapOrder, checkContext, checkBranch, checkRecord, checkCapture, checkDropped, checkVersion, checkCase, checkSpin, checkArgument,
	checkDeaf, checkSleep, checkSentinel, checkTwice,
	checkEndless, checkCleanup, checkUndo, checkRearm, checkMixed, checkGoStep,
}

// fixes contains the functions that suggest edits for operations, by rule.
var fixes = map[Rule]func(*packagePass, *unit, prim) []analysis.SuggestedFix{
	"clock": fixClock, "random": fixRandom, "env": fixEnv, "log": fixLog, "raw": fixRaw,
}

// durable marks the effect of a function that certainly executes a durable operation. It is not a
// rule for users.
const durable Rule = "durable"

func ruleOf(name Rule) *rule {
	if i := slices.IndexFunc(rules, func(r *rule) bool { return r.name == name }); i >= 0 {
		return rules[i]
	}
	return nil
}

func known(name Rule) bool { return ruleOf(name) != nil }

// Names returns the names of all rules.
func Names() []string {
	list := make([]string, len(rules))
	for i, r := range rules {
		list[i] = string(r.name)
	}
	return list
}

// say returns the text that follows the name of an operation in a report. The argument what is the
// name.
func (r *rule) say(what string) string {
	if text, ok := r.of[what]; ok {
		return text
	}
	if r.name == "global" && isRead(what) {
		return readText
	}
	return r.does + ": " + r.mend
}

//go:embed pages
var pageFiles embed.FS

// Explain returns the page of a rule in Markdown. For an unknown name it returns an error that
// lists the rules.
func Explain(name string) (string, error) {
	page, err := pageFiles.ReadFile("pages/" + name + ".md")
	if err != nil {
		return "", fmt.Errorf("there is no rule %s: the rules are %s", name, strings.Join(Names(), ", "))
	}
	return string(page), nil
}

// Analyzers returns an analyzer for each mandatory rule.
func Analyzers() []*analysis.Analyzer { return analyzers(false) }

// Advice returns an analyzer for each advisory rule. The reports of these rules are not necessarily
// mistakes and need a review.
func Advice() []*analysis.Analyzer { return analyzers(true) }

func analyzers(advice bool) []*analysis.Analyzer {
	var list []*analysis.Analyzer
	for _, r := range rules {
		if r.advice == advice {
			list = append(list, r.analyzer())
		}
	}
	return list
}

const pagesURL = "https://" + modulePath + "/blob/main/flowcheck/pages/"

// analyzer returns an analyzer that reports the results of one rule.
func (r *rule) analyzer() *analysis.Analyzer {
	page, err := Explain(string(r.name))
	if err != nil {
		panic("flowcheck: " + err.Error())
	}
	_, doc, _ := strings.Cut(page, "\n")
	return &analysis.Analyzer{
		Name:     string(r.name),
		Doc:      strings.TrimSpace(doc),
		URL:      pagesURL + string(r.name) + ".md",
		Requires: []*analysis.Analyzer{solver},
		Run: func(pass *analysis.Pass) (any, error) {
			found, _ := pass.ResultOf[solver].(reports)
			for _, d := range found[r.name] {
				pass.Report(d)
			}
			return nil, nil
		},
	}
}
