-- guard_uses refuses a run that can never have its permits, and one that would wait where
-- nobody else may; ready: it would be ready now, owned: it would have an owner. limits are
-- those that it uses.
local function guard_uses(limits, ready, owned)
  for n, l in ipairs(limits) do
    if too_heavy({l}) then
      return {'too heavy', n, l.at_once}
    end
    if ready and (l.refuse or l.waiting > 0) then
      local beyond, retry = 0, 0
      if l.at_once > 0 then
        beyond = l.held + l.waits + l.weight - l.at_once
      end
      if l.paused then
        beyond = math.max(beyond, l.waits + l.weight)
      end
      local at = rate_wait(l, l.waits)
      if at > 0 then
        retry = at - math.floor(limit_now / 1000)
        beyond = math.max(beyond, math.floor((retry * 1000 + l.interval - 1) / l.interval))
      end
      if beyond > l.waiting or l.refuse and beyond > 0 then
        return {'full', n, retry}
      end
    end
    if owned and (not room(l, l.weight) or l.waits > 0) then
      return {'later'}
    end
  end
  return nil
end
