// Package enginetest is the suite that every engine driver runs: what the cut of package engine promises, as tests. A driver's own
// tests call [Run] with a way to start it, once for each engine and model it is to be believed with.
//
//	enginetest.Run(t, enginetest.Config{Start: func(t enginetest.T) engine.Instance { ... }})
//
// [Faults] is the same for engines that fail: faults that the scripted engine (package fake) plays, and what a driver has to make
// of it. A driver of a local engine runs both.
//
// The suite adapts to what the instance says it can do: an ability that is declared is held to its promise, one that is not must
// be refused by name. It starts one instance for the checks that leave it well, and one for each of those that end it. Answers are
// short, so that slow engines can run it too. Its own tests give it planted wrong drivers, and each must fail a certain check.
package enginetest
