-- guard_uses refuses a run that can never have its permits, and a run that would wait although the
-- maximum number of waiting runs is reached. ready is set if the run would be ready immediately,
-- owned if it would have an owner.
local function guard_uses(uses, ready, owned)
  for n, u in ipairs(with_limits(uses)) do
    local l, weight = u.limit, u[3]
    if too_heavy({u}) then
      return {'too heavy', n, l.at_once}
    end
    if ready and (l.refuse or l.waiting > 0) then
      local beyond, retry = 0, 0
      if l.at_once > 0 then
        beyond = l.held + in_front(l) + weight - l.at_once
      end
      if l.paused then
        beyond = math.max(beyond, in_front(l) + weight)
      end
      local at = rate_wait(l, in_front(l))
      if at > 0 then
        retry = at - math.floor(limit_now / 1000)
        beyond = math.max(beyond, math.floor((retry * 1000 + l.interval - 1) / l.interval))
      end
      if beyond > l.waiting or l.refuse and beyond > 0 then
        return {'full', n, retry}
      end
    end
    if owned and (not has_capacity(l, weight) or in_front(l) > 0) then
      return {'later'}
    end
  end
  return nil
end
