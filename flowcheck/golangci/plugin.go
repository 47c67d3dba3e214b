package golangci

import (
	"fmt"

	"github.com/flowgen/flowgen/flowcheck"
	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"
)

// Name is how configurations call the linter.
const Name = "flowgen"

func init() { register.Plugin(Name, New) }

// Settings are those of a .golangci.yml.
type Settings struct {
	Advice bool `json:"advice"` // say what is worth a look, too, as flowgen vet -advice does
}

type plugin struct{ settings Settings }

// New returns the plugin for settings, which may be nil.
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

// GetLoadMode says that the rules need types.
func (p *plugin) GetLoadMode() string { return register.LoadModeTypesInfo }
