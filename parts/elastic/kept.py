"""What runs of `search_pareto_front` keep."""

from pipeline.kept_reports import PagesOfClusters

PAGES = PagesOfClusters("fronts", "search_pareto_front", "front.json")
