// Package golangci provides the rules of package flowcheck as a linter of golangci-lint with the
// name flowgen.
//
// It is a module plugin in a separate module, so that users of flowgen without golangci-lint do not
// depend on it. The page docs/use/rules.md lists the files that a project needs.
package golangci

import (
	"fmt"

	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/flowgen/flowgen/flowcheck"
)

// Name is the name of the linter in configurations.
const Name = "flowgen"

func init() { register.Plugin(Name, New) }

// Settings contains the settings of the linter in .golangci.yml.
type Settings struct {
	Advice bool `json:"advice"` // report the advisory rules as well, like flowgen vet -advice
}

type plugin struct{ settings Settings }

// New returns the plugin for the settings. settings may be nil.
func New(settings any) (register.LinterPlugin, error) {
	s, err := register.DecodeSettings[Settings](settings)
	if err != nil {
		return nil, fmt.Errorf("read the settings of linter %s: %w", Name, err)
	}
	return &plugin{s}, nil
}

// BuildAnalyzers returns an analyzer for each rule.
func (p *plugin) BuildAnalyzers() ([]*analysis.Analyzer, error) {
	list := flowcheck.Analyzers()
	if p.settings.Advice {
		list = append(list, flowcheck.Advice()...)
	}
	return list, nil
}

// GetLoadMode returns the load mode with type information, because the rules need it.
func (p *plugin) GetLoadMode() string { return register.LoadModeTypesInfo }
