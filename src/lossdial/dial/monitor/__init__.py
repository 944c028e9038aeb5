"""What comes later: outcomes, unlabelled scores, prevalence."""
