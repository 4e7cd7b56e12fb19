"""The SQL that adds the summary of new points to that of a series."""


def summary_set(new: str) -> str:
    """Return the assignments of an UPDATE of the series `old` by the row `new`, whose columns have the same names.

    The last point of a series is the one with the highest (attempt, step); of equals, the latest to arrive.
    """
    return f"""
  count = old.count + {new}.count,
  first_value = COALESCE(old.first_value, {new}.first_value),
  min_value = LEAST(old.min_value, {new}.min_value),
  max_value = GREATEST(old.max_value, {new}.max_value),
  (last_attempt, last_step, last_value, last_time) = (
    SELECT CASE WHEN newer THEN {new}.last_attempt ELSE old.last_attempt END,
           CASE WHEN newer THEN {new}.last_step ELSE old.last_step END,
           CASE WHEN newer THEN {new}.last_value ELSE old.last_value END,
           CASE WHEN newer THEN {new}.last_time ELSE old.last_time END
    FROM (SELECT ({new}.last_attempt, {new}.last_step) >= (old.last_attempt, old.last_step) AS newer) AS compared)
"""
