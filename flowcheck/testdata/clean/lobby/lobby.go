// Package lobby waits for players and starts a game.
package lobby

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Player is somebody who wants to play.
type Player struct {
	Name  string
	Level int
}

// What a lobby hears.
var (
	Join  = workflow.NewTopic[Player]("join")
	Leave = workflow.NewTopic[string]("leave")
)

//flow:step
func start(ctx context.Context, teams [][]string) (string, error) { return "game", ctx.Err() }

func teams(players map[string]Player) [][]string {
	sorted := slices.SortedFunc(maps.Values(players), func(a, b Player) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), strings.Compare(a.Name, b.Name))
	})
	two := make([][]string, 2)
	for i, p := range sorted {
		two[i%2] = append(two[i%2], p.Name)
	}
	return two
}

// lobby starts with four players, or with two after a minute.
//
//flow:workflow
func lobby(ctx workflow.Context, game string) (string, error) {
	players := make(map[string]Player)
	join, leave, late := Join.Case(), Leave.Case(), workflow.After(time.Minute)
	for len(players) < 4 {
		won, err := workflow.Select(ctx, join, leave, late)
		if err != nil {
			return "", err
		}
		switch won {
		case join:
			players[join.Value().Name] = join.Value()
		case leave:
			delete(players, leave.Value())
		}
		if won == late && len(players) >= 2 {
			break
		}
	}
	return Start(ctx, teams(players))
}
